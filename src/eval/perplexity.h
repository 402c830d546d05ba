// How well a model predicts a text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "engine/load.h"

namespace nibble::eval {

struct Perplexity {
  int64_t tokens = 0, predicted = 0;  // of the text; of those, the ones that the model had to predict
  double nll = 0.0;                   // negative log-likelihood of those, summed, in nats
  double mean() const { return nll / static_cast<double>(predicted); }
  double perplexity() const;  // exp(mean())
};

// The text is cut into windows of `window` tokens that share nothing; the first token of a window is given, each other
// is predicted from those before it in the window. `progress` counts tokens. At least two tokens, window of 2 or more.
Perplexity perplexity(const EngineOptions& options, engine::LoadedModel& loaded, std::span<const int32_t> tokens,
                      int64_t window, const std::function<void(int64_t done, int64_t total)>& progress = {});

}  // namespace nibble::eval
