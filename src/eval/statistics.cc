#include "eval/statistics.h"

#include <algorithm>
#include <cmath>

namespace nibble::eval {

double pass_threshold(const Reference& reference, int64_t problems) {
  constexpr double kOneSided95 = 1.6448536;
  const double variance = 1.0 / static_cast<double>(problems) + 1.0 / static_cast<double>(reference.problems);
  return reference.share - kOneSided95 * 0.5 * std::sqrt(variance);
}

double mcnemar_p(int64_t only_a, int64_t only_b) {
  const auto n = static_cast<double>(only_a + only_b);
  double tail = 0.0;
  for (int64_t i = 0; i <= std::min(only_a, only_b); ++i) {
    const auto k = static_cast<double>(i);
    tail += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) - n * std::log(2.0));
  }
  return std::min(1.0, 2.0 * tail);
}

}  // namespace nibble::eval
