#include "engine/sampler.h"

#include <algorithm>
#include <bit>
#include <exception>
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

void Sampler::ask(Completion& c) {
  std::fill(allowed_.begin(), allowed_.end(), ~uint64_t{0});
  if (vocabulary_ % 64 != 0) allowed_.back() = (uint64_t{1} << (vocabulary_ % 64)) - 1;
  try {
    c.mask->restrict(allowed_);
  } catch (const std::exception& error) {
    c.mask_error = error.what();
  }
}

// Whether any token is allowed but these, which min_tokens bans.
bool Sampler::any_but(std::span<const int32_t> ids) {
  for (const int32_t id : ids) allowed_[static_cast<size_t>(id / 64)] &= ~(uint64_t{1} << (id % 64));
  return std::any_of(allowed_.begin(), allowed_.end(), [](uint64_t word) { return word != 0; });
}

// The mask's bans follow the fixed ones. Those that held before min_tokens stand between the two while they hold: as
// long as there is anything that may come but the end.
void Sampler::apply_mask(Completion& c, size_t fixed) {
  ask(c);
  if (!any_but(std::span(c.bias_ids).first(fixed).subspan(c.bias_always))) {
    ask(c);
    fixed = c.bias_always;
  }
  c.bias_early = fixed;
  c.bias_ids.resize(fixed);
  for (size_t word = 0; word < allowed_.size(); ++word) {
    for (uint64_t banned = ~allowed_[word]; banned != 0; banned &= banned - 1) {
      const int64_t id = static_cast<int64_t>(word) * 64 + std::countr_zero(banned);
      if (id < vocabulary_) c.bias_ids.push_back(static_cast<int32_t>(id));
    }
  }
  c.bias_values.resize(fixed);
  c.bias_values.resize(c.bias_ids.size(), -std::numeric_limits<float>::infinity());
}

}  // namespace nibble::engine
