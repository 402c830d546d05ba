#include "engine/soak.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace nibble::engine {
namespace {

constexpr int64_t kLongestPrompt = 200;

int64_t pick(std::mt19937_64& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

bool same(const TokenLogprob& a, const TokenLogprob& b) {
  return a.id == b.id && std::memcmp(&a.logprob, &b.logprob, sizeof a.logprob) == 0 && a.top == b.top;
}

// Whether `part` is the beginning of `whole`.
bool begins(const Transcript& part, const Transcript& whole) {
  return part.tokens.size() <= whole.tokens.size() &&
         std::equal(part.tokens.begin(), part.tokens.end(), whole.tokens.begin()) &&
         part.prompt_logprobs.size() <= whole.prompt_logprobs.size() &&
         std::equal(part.prompt_logprobs.begin(), part.prompt_logprobs.end(), whole.prompt_logprobs.begin(), same) &&
         part.logprobs.size() <= whole.logprobs.size() &&
         std::equal(part.logprobs.begin(), part.logprobs.end(), whole.logprobs.begin(), same);
}

bool equal(const Transcript& a, const Transcript& b) {
  return begins(a, b) && begins(b, a) && a.text == b.text && a.finish == b.finish && a.stop_string == b.stop_string;
}

}  // namespace

struct Soak::Running {
  StepLoop& loop;
  std::mt19937_64 random;
  size_t submitted = 0;
  std::vector<std::vector<Transcript>> heard;  // by request and choice

  // A request in the engine; where there is none, the number of one to come.
  size_t any_unfinished() {
    std::vector<size_t> choice = {submitted};
    for (size_t i = 0; i < submitted; ++i) {
      const bool ended = std::all_of(heard[i].begin(), heard[i].end(),
                                     [](const Transcript& t) { return t.finish != FinishReason::kNone; });
      if (!ended) choice.push_back(i);
    }
    return choice[static_cast<size_t>(pick(random, 0, static_cast<int64_t>(choice.size()) - 1))];
  }
};

Soak::Soak(LoadedModel& loaded, const EngineOptions& options, uint64_t seed, int64_t count)
    : loaded_(loaded), options_(options), random_(seed) {
  for (const int64_t length : {70, 128, 150}) bases_.push_back(random_tokens(length));
  EngineOptions alone = options;
  alone.max_sequences = 1;
  alone.step_tokens = 64;
  alone.checkpoint_bytes = 0;
  const std::unique_ptr<Runner> runner = make_runner(alone, loaded);
  StepLoop loop(*runner, loaded.tokenizer, loaded.facts);
  for (int64_t i = 0; i < count; ++i) {
    Case& c = cases_.emplace_back(Case{make_request(), {}});
    c.alone.resize(static_cast<size_t>(c.request.choices));
    loop.submit(1, c.request, [&](Engine::Id, const Output& o) { c.alone[static_cast<size_t>(o.choice)].add(o); });
    while (loop.step()) {
    }
  }
}

std::vector<int32_t> Soak::random_tokens(int64_t count) {
  std::vector<int32_t> out(static_cast<size_t>(count));
  for (int32_t& id : out) id = static_cast<int32_t>(pick(random_, 0, loaded_.facts.vocabulary - 1));
  return out;
}

// New, or the beginning of something that others begin with too, or an earlier conversation and what comes next.
std::vector<int32_t> Soak::make_prompt() {
  const int64_t kind = pick(random_, 0, 9);
  std::vector<int32_t> out;
  if (kind < 5) {
    const auto& base = bases_[static_cast<size_t>(pick(random_, 0, static_cast<int64_t>(bases_.size()) - 1))];
    const int64_t most = static_cast<int64_t>(base.size());
    out.assign(base.begin(), base.begin() + (pick(random_, 0, 3) == 0 ? pick(random_, 1, most) : most));
  } else if (kind < 8 && !cases_.empty()) {
    const auto size = static_cast<int64_t>(cases_.size());
    const Case& c = cases_[static_cast<size_t>(pick(random_, std::max<int64_t>(0, size - 12), size - 1))];
    out = c.request.prompt;
    out.insert(out.end(), c.alone[0].tokens.begin(), c.alone[0].tokens.end());
    if (static_cast<int64_t>(out.size()) > kLongestPrompt) out.resize(kLongestPrompt);
    if (kind == 7) return out;  // exactly what was there
  } else if (kind == 8) {
    return random_tokens(1);
  } else {
    return random_tokens(pick(random_, 2, 50));
  }
  const std::vector<int32_t> more = random_tokens(pick(random_, 1, 20));
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

Request Soak::make_request() {
  Request r;
  r.prompt = make_prompt();
  r.max_tokens = pick(random_, 0, 9) == 0 ? pick(random_, 30, 90) : pick(random_, 1, 8);
  r.priority = static_cast<int32_t>(pick(random_, -1, 1));
  if (pick(random_, 0, 1) == 0) {
    r.sampling.temperature = 0.0f;
  } else {
    r.sampling = {.temperature = 2.0f, .top_p = 0.95f, .seed = random_()};
    if (pick(random_, 0, 1) == 0) r.sampling.top_k = 40;
    if (pick(random_, 0, 1) == 0) r.sampling.repetition_penalty = 1.3f;
    if (pick(random_, 0, 3) == 0) r.choices = static_cast<int32_t>(pick(random_, 2, 4));
  }
  if (pick(random_, 0, 4) == 0) r.top_logprobs = static_cast<int32_t>(pick(random_, 0, 3));
  if (pick(random_, 0, 9) == 0) r.prompt_logprobs = static_cast<int32_t>(pick(random_, 0, 2));
  if (pick(random_, 0, 4) == 0) r.ignore_eos = true;
  if (pick(random_, 0, 4) == 0) r.min_tokens = pick(random_, 1, 10);
  if (pick(random_, 0, 4) == 0) r.stop_strings = {"e", "never this"};
  return r;
}

// Something happens between two steps: requests come, one is given up, one is put aside.
void Soak::step_at_random(Running& now) {
  if (now.submitted < cases_.size() && (now.loop.idle() || pick(now.random, 0, 3) == 0)) {
    for (int64_t burst = pick(now.random, 1, 6); burst > 0 && now.submitted < cases_.size(); --burst) {
      const size_t i = now.submitted++;
      Request request = cases_[i].request;
      const auto clock = std::chrono::steady_clock::now();
      if (pick(now.random, 0, 29) == 0) request.deadline = clock;
      if (pick(now.random, 0, 9) == 0) request.deadline = clock + std::chrono::milliseconds(pick(now.random, 1, 50));
      now.loop.submit(i + 1, std::move(request),
                      [&now, i](Engine::Id, const Output& o) { now.heard[i][static_cast<size_t>(o.choice)].add(o); });
    }
  }
  if (pick(now.random, 0, 49) == 0) now.loop.cancel(now.any_unfinished() + 1);
  if (pick(now.random, 0, 9) == 0) now.loop.suspend(now.any_unfinished() + 1);
}

Soak::Result Soak::run(const EngineOptions& options, uint64_t seed) {
  const std::unique_ptr<Runner> runner = make_runner(options, loaded_);
  runner->cache().poison_freed(true);
  StepLoop loop(*runner, loaded_.tokenizer, loaded_.facts);
  Running now{.loop = loop, .random = std::mt19937_64(seed), .heard = {}};
  for (const Case& c : cases_) now.heard.emplace_back(c.alone.size());
  while (now.submitted < cases_.size() || !loop.idle()) {
    step_at_random(now);
    loop.step();
  }
  Result result;
  result.stats = loop.stats();
  check(now, result);
  return result;
}

void Soak::check(const Running& now, Result& result) const {
  for (size_t i = 0; i < cases_.size(); ++i) {
    for (size_t choice = 0; choice < cases_[i].alone.size(); ++choice) {
      const Transcript &got = now.heard[i][choice], &want = cases_[i].alone[choice];
      const bool cancelled = got.finish == FinishReason::kCancelled, late = got.finish == FinishReason::kDeadline;
      result.cancelled += cancelled ? 1 : 0;
      result.late += late ? 1 : 0;
      result.whole += cancelled || late ? 0 : 1;
      if (cancelled || late ? begins(got, want) : equal(got, want)) continue;
      size_t at = 0;
      while (at < got.tokens.size() && at < want.tokens.size() && got.tokens[at] == want.tokens[at]) ++at;
      result.faults.push_back("request " + std::to_string(i) + " choice " + std::to_string(choice) + ", prompt of " +
                              std::to_string(cases_[i].request.prompt.size()) + ": token " + std::to_string(at) +
                              " differs; " + std::to_string(got.tokens.size()) + " of " +
                              std::to_string(want.tokens.size()) + " tokens, " + std::string(name_of(got.finish)) +
                              " for " + std::string(name_of(want.finish)) + " " + got.error);
    }
  }
  const EngineStats& s = result.stats;
  if (s.pages_free != s.pages_total || s.slots_free != s.slots_total) result.faults.push_back("memory not given back");
}

int64_t Soak::tokens_alone() const {
  int64_t out = 0;
  for (const Case& c : cases_) {
    for (const Transcript& t : c.alone) out += static_cast<int64_t>(t.tokens.size());
  }
  return out;
}

}  // namespace nibble::engine
