#include "engine/logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace nibble::engine {

void token_logprob(std::span<const float> logits, int32_t id, int32_t top, std::vector<int32_t>& order,
                   TokenLogprob& out) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - highest);
  const auto logprob = [&](int32_t i) {  // the difference first: next to a large logit log(sum) would be lost
    return static_cast<float>((logits[static_cast<size_t>(i)] - highest) - std::log(sum));
  };

  out.id = id;
  out.logprob = logprob(id);
  out.top.clear();
  if (top <= 0) return;
  order.resize(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + std::min<int64_t>(top, static_cast<int64_t>(order.size()));
  std::partial_sort(order.begin(), end, order.end(), [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  for (auto it = order.begin(); it != end; ++it) out.top.emplace_back(*it, logprob(*it));
}

}  // namespace nibble::engine
