#include "engine/sampler.h"

#include <algorithm>
#include <limits>

namespace nibble::engine {

Sampler::Sampler(int64_t vocabulary) : vocabulary_(vocabulary), allowed_(static_cast<size_t>((vocabulary + 63) / 64)) {}

SampleRequest Sampler::prepare(Completion& c) {
  const Request& request = c.request->request;
  const SamplingParams& s = request.sampling;
  const size_t fixed = c.generated() < request.min_tokens ? c.bias_early : c.bias_always;
  if (c.mask) apply_mask(c, fixed);
  const size_t biased = c.mask ? c.bias_ids.size() : fixed;
  return {.row = {.temperature = s.temperature,
                  .top_p = s.top_p,
                  .min_p = s.min_p,
                  .top_k = s.top_k,
                  .repetition_penalty = s.repetition_penalty,
                  .frequency_penalty = s.frequency_penalty,
                  .presence_penalty = s.presence_penalty,
                  .seed = c.seed,
                  .position = c.tokens.size()},
          .seen_ids = c.seen.ids(),
          .seen_counts = c.seen.counts(),
          .bias_ids = std::span<const int32_t>(c.bias_ids).first(biased),
          .bias_values = std::span<const float>(c.bias_values).first(biased)};
}

// The mask's bans follow the fixed ones. Those that held before min_tokens stand between the two while they hold.
void Sampler::apply_mask(Completion& c, size_t fixed) {
  std::fill(allowed_.begin(), allowed_.end(), ~uint64_t{0});
  c.mask->restrict(allowed_);
  c.bias_early = fixed;
  c.bias_ids.resize(fixed);
  c.bias_values.resize(fixed);
  for (int64_t id = 0; id < vocabulary_; ++id) {
    if ((allowed_[static_cast<size_t>(id / 64)] >> (id % 64) & 1) != 0) continue;
    c.bias_ids.push_back(static_cast<int32_t>(id));
    c.bias_values.push_back(-std::numeric_limits<float>::infinity());
  }
}

}  // namespace nibble::engine
