// What the model predicts after each token of a text: the scores behind `nibble score`, perplexity and log-likelihoods.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/load.h"

namespace nibble::engine {

struct ScoreOptions {
  int64_t top = 8;    // alternatives a position
  int64_t chunk = 0;  // rows a step; 0: as many as keep the logits of a step under 64 MiB, at most 256
};

// The prediction that position i of the text makes for position i + 1.
struct PositionScore {
  int64_t position = 0;
  std::vector<int32_t> top_ids;   // the likeliest, descending; the lower id first among equals
  std::vector<float> top_logits;  // of top_ids
  double logsumexp = 0.0;         // over the vocabulary: a logit minus this is a log-probability
  float next_logit = 0.0f;        // of the token that follows in the text; of the last position: 0
};

// Runs the text as a prompt in chunks and hands over each position in order; memory does not grow with the text but by
// its cache. `tokens` are valid: not empty, in the vocabulary, no longer than the model allows. The reference is valid
// during the call. Throws Refusal for counts out of range, std::runtime_error where logits are not finite.
void score(const EngineOptions& options, LoadedModel& loaded, std::span<const int32_t> tokens,
           const ScoreOptions& wanted, const std::function<void(const PositionScore&)>& each);

}  // namespace nibble::engine
