#include "engine/request_state.h"

#include <algorithm>
#include <limits>
#include <random>

namespace nibble::engine {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

bool wants_penalties(const SamplingParams& s) {
  return s.repetition_penalty != 1.0f || s.frequency_penalty != 0.0f || s.presence_penalty != 0.0f;
}

// A stream of its own for each choice; the first has the request's seed itself, so that asking for more choices does
// not change it.
uint64_t seed_of(uint64_t seed, int32_t choice) {
  return seed + static_cast<uint64_t>(choice) * 0x9E3779B97F4A7C15u;  // odd, so no two choices meet
}

uint64_t random_seed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

// Biases add up, so it does not matter whether an id is in the list already.
void ban(Completion& c, const std::vector<int32_t>& ids) {
  c.bias_ids.insert(c.bias_ids.end(), ids.begin(), ids.end());
  c.bias_values.insert(c.bias_values.end(), ids.size(), kBanned);
}

std::unique_ptr<Completion> make_completion(RequestState& owner, int32_t choice, const ModelFacts& facts) {
  const Request& r = owner.request;
  const auto prompt = static_cast<int64_t>(r.prompt.size());
  const int64_t room = facts.context - prompt;
  const int64_t max_size = prompt + (r.max_tokens > 0 ? std::min(r.max_tokens, room) : room);
  auto c =
      std::make_unique<Completion>(owner, choice, SeenTokens(wants_penalties(r.sampling), facts.vocabulary, max_size));
  c->prompt_size = prompt;
  c->max_size = max_size;
  c->tokens.reserve(static_cast<size_t>(max_size));
  c->tokens = r.prompt;
  c->sequence.pages.reserve(static_cast<size_t>(max_size / ops::kPageTokens + 1));
  c->checkpoint_positions.reserve(kMaxCheckpoints);
  c->guessed_positions.reserve(kMaxCheckpoints);
  c->saved_checkpoints.reserve(kMaxCheckpoints);
  c->guessed_checkpoints.reserve(kMaxCheckpoints);
  for (const int32_t id : r.prompt) c->seen.add(id, /*generated=*/false);
  if (r.token_mask) c->mask = r.token_mask();

  const size_t masked = c->mask ? static_cast<size_t>(facts.vocabulary) : 0;
  const size_t most =
      r.sampling.logit_bias.size() + facts.never_sampled.size() + facts.stop_ids.size() + r.stop_ids.size() + masked;
  c->bias_ids.reserve(most);
  c->bias_values.reserve(most);
  for (const auto& [id, value] : r.sampling.logit_bias) {
    c->bias_ids.push_back(id);
    c->bias_values.push_back(value);
  }
  ban(*c, facts.never_sampled);
  c->bias_always = c->bias_ids.size();
  if (r.min_tokens > 0) {
    if (!r.ignore_eos) ban(*c, facts.stop_ids);
    ban(*c, r.stop_ids);
  }
  c->bias_early = c->bias_ids.size();
  return c;
}

}  // namespace

SeenTokens::SeenTokens(bool on, int64_t vocabulary, int64_t length) {
  if (!on) return;
  place_.assign(static_cast<size_t>(vocabulary), -1);
  ids_.reserve(static_cast<size_t>(std::min(vocabulary, length)));
  counts_.reserve(ids_.capacity());
}

void SeenTokens::add(int32_t id, bool generated) {
  if (place_.empty()) return;
  int32_t& place = place_[static_cast<size_t>(id)];
  if (place < 0) {
    place = static_cast<int32_t>(ids_.size());
    ids_.push_back(id);
    counts_.push_back(0);
  }
  if (generated) ++counts_[static_cast<size_t>(place)];
}

Completion::Completion(RequestState& owner, int32_t choice_index, SeenTokens seen_tokens)
    : request(&owner), choice(choice_index), seen(std::move(seen_tokens)), stops(owner.request.stop_strings) {}

bool Completion::scores_prompt() const {
  return request->request.prompt_logprobs >= 0 && prompt_scored < prompt_size - 1;
}

std::unique_ptr<RequestState> make_request_state(Engine::Id id, Request request, Engine::Callback callback,
                                                 const ModelFacts& facts, uint64_t first_arrival) {
  auto state = std::make_unique<RequestState>();
  state->id = id;
  state->request = std::move(request);
  state->callback = std::move(callback);
  const uint64_t seed = state->request.sampling.seed ? *state->request.sampling.seed : random_seed();
  for (int32_t choice = 0; choice < state->request.choices; ++choice) {
    auto c = make_completion(*state, choice, facts);
    c->arrival = first_arrival + static_cast<uint64_t>(choice);
    c->seed = seed_of(seed, choice);
    state->completions.push_back(std::move(c));
  }
  state->unfinished = state->request.choices;
  return state;
}

bool stops_at(const Completion& c, int32_t id, const ModelFacts& facts) {
  const auto has = [id](const std::vector<int32_t>& ids) { return std::find(ids.begin(), ids.end(), id) != ids.end(); };
  const Request& r = c.request->request;
  return (!r.ignore_eos && has(facts.stop_ids)) || has(r.stop_ids) || has(facts.never_sampled);
}

}  // namespace nibble::engine
