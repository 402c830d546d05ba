#include "eval/perplexity.h"

#include <algorithm>
#include <cmath>

#include "engine/score.h"

namespace nibble::eval {

double Perplexity::perplexity() const { return std::exp(mean()); }

Perplexity perplexity(const EngineOptions& options, engine::LoadedModel& loaded, std::span<const int32_t> tokens,
                      int64_t window, const std::function<void(int64_t done, int64_t total)>& progress) {
  const auto total = static_cast<int64_t>(tokens.size());
  Perplexity out{.tokens = total};
  for (int64_t begin = 0; begin < total; begin += window) {
    const int64_t length = std::min(window, total - begin);
    if (length < 2) break;  // one token over: nothing in it to predict
    engine::score(options, loaded, tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(length)), {.top = 1},
                  [&](const engine::PositionScore& p) {
                    if (progress) progress(begin + p.position + 1, total);
                    if (p.position + 1 == length) return;
                    out.nll -= p.next_logit - p.logsumexp;
                    ++out.predicted;
                  });
  }
  return out;
}

}  // namespace nibble::eval
