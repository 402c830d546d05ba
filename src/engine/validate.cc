#include "engine/validate.h"

#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"

namespace nibble::engine {
namespace {

std::string text(int64_t n) { return std::to_string(n); }

void check_ids(const char* what, const std::vector<int32_t>& ids, int64_t vocabulary) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocabulary) continue;
    throw Refusal({.what = what,
                   .seen = "id " + text(ids[i]) + " at place " + text(static_cast<int64_t>(i)),
                   .rule = "ids are 0 to " + text(vocabulary - 1) + ", the model's vocabulary",
                   .fix = "tokens of this checkpoint's own tokenizer"});
  }
}

void check_range(const char* what, double value, double low, double high) {
  if (value >= low && value <= high) return;  // NaN is in no range
  throw Refusal({.what = what,
                 .seen = std::to_string(value),
                 .rule = "from " + std::to_string(low) + " to " + std::to_string(high),
                 .fix = "a value in that range"});
}

void check_count(const char* what, int64_t seen, int64_t low, int64_t high) {
  if (seen >= low && seen <= high) return;
  throw Refusal({.what = what,
                 .seen = text(seen),
                 .rule = "from " + text(low) + " to " + text(high),
                 .fix = "a number in that range"});
}

void check_sampling(const SamplingParams& s, int64_t vocabulary) {
  check_range("temperature", s.temperature, 0, 100);
  check_range("top_p", s.top_p, 0, 1);
  check_range("min_p", s.min_p, 0, 1);
  check_count("top_k", s.top_k, 0, std::numeric_limits<int32_t>::max());
  check_range("repetition_penalty", s.repetition_penalty, 1e-3, 1e3);
  check_range("frequency_penalty", s.frequency_penalty, -100, 100);
  check_range("presence_penalty", s.presence_penalty, -100, 100);
  check_count("logit_bias entries", static_cast<int64_t>(s.logit_bias.size()), 0, kMaxLogitBias);
  for (const auto& [id, value] : s.logit_bias) {
    check_ids("logit_bias", {id}, vocabulary);
    if (value != -std::numeric_limits<float>::infinity()) check_range("logit_bias", value, -1e4, 1e4);
  }
}

}  // namespace

void validate(const Request& r, const ModelFacts& facts) {
  const auto size = static_cast<int64_t>(r.prompt.size());
  if (size == 0 || size >= facts.context) {
    throw Refusal({.what = "prompt",
                   .seen = text(size) + " tokens",
                   .rule = "at least 1, and with one generated token no more than the context of " +
                           text(facts.context) + " tokens",
                   .fix = size == 0 ? "a prompt of one token or more" : "a shorter prompt, or a longer context"});
  }
  check_ids("prompt", r.prompt, facts.vocabulary);
  check_ids("stop_ids", r.stop_ids, facts.vocabulary);
  check_sampling(r.sampling, facts.vocabulary);
  check_count("max_tokens", r.max_tokens, 0, std::numeric_limits<int64_t>::max());
  check_count("min_tokens", r.min_tokens, 0, std::numeric_limits<int64_t>::max());
  check_count("stop_ids", static_cast<int64_t>(r.stop_ids.size()), 0, kMaxStopIds);
  check_count("stop_strings", static_cast<int64_t>(r.stop_strings.size()), 0, kMaxStopStrings);
  check_count("top_logprobs", r.top_logprobs, -1, facts.vocabulary);
  check_count("prompt_logprobs", r.prompt_logprobs, -1, facts.vocabulary);
  check_count("choices", r.choices, 1, kMaxChoices);
  if (!r.constraint.none() && r.token_mask) {
    throw Refusal({.what = r.constraint.calls ? "tool calls" : std::string(name_of(r.constraint.kind)),
                   .seen = "a token_mask beside it",
                   .rule = "one thing decides which tokens may come",
                   .fix = "the constraint or the mask"});
  }
}

}  // namespace nibble::engine
