#include "ops/logits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace nibble::ops {

double logsumexp(std::span<const float> logits) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double largest = -kInfinity;
  for (const float x : logits) {
    if (std::isnan(x)) return std::numeric_limits<double>::quiet_NaN();
    largest = std::max(largest, static_cast<double>(x));
  }
  if (std::isinf(largest)) return largest;
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - largest);
  return largest + std::log(sum);
}

std::vector<int32_t> top_ids(std::span<const float> logits, int64_t count) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto before = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) == std::isnan(y) ? a < b : std::isnan(y);
    return x == y ? a < b : x > y;
  };
  const auto kept = std::min(std::max<int64_t>(count, 0), static_cast<int64_t>(ids.size()));
  std::partial_sort(ids.begin(), ids.begin() + kept, ids.end(), before);
  ids.resize(static_cast<size_t>(kept));
  return ids;
}

}  // namespace nibble::ops
