#include "traffic/random.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace nibble::traffic {

double Random::uniform() { return (static_cast<double>(bits_() >> 11) + 0.5) * 0x1p-53; }

int64_t Random::integer(int64_t low, int64_t high) {
  const auto count = static_cast<double>(high - low + 1);
  return std::min(high, low + static_cast<int64_t>(uniform() * count));
}

double Random::exponential(double mean) { return -mean * std::log(uniform()); }

double Random::normal() {
  const double radius = std::sqrt(-2.0 * std::log(uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

}  // namespace nibble::traffic
