#include "engine/step_loop.h"

#include <algorithm>

#include "engine/logprobs.h"

namespace nibble::engine {
namespace {

constexpr size_t kTokenText = 1024;  // bytes of text that a token may bring without allocating: far above any token's

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

StepLoop::StepLoop(Runner& runner, const text::Tokenizer& tokenizer, const ModelFacts& facts,
                   std::function<void()> publish)
    : runner_(runner),
      tokenizer_(tokenizer),
      facts_(facts),
      publish_(std::move(publish)),
      prefixes_(runner.cache(), runner.options().checkpoints),
      reuse_(prefixes_, {.interval = runner.options().checkpoint_interval, .turn_end = facts.turn_end}),
      scheduler_(runner.cache(), reuse_,
                 {.step_rows = runner.options().limits.rows,
                  .sequences = runner.options().limits.sequences,
                  .sampled_rows = runner.options().limits.sampled,
                  .suspended_bytes = runner.options().suspended_bytes,
                  .suspend_directory = runner.options().suspend_directory,
                  .suspended_file_bytes = runner.options().suspended_file_bytes}),
      sampler_(facts.vocabulary) {
  const auto sequences = static_cast<size_t>(runner.options().limits.sequences);
  batch_.reserve(sequences);
  samples_.reserve(static_cast<size_t>(runner.options().limits.sampled));
  sampled_.reserve(sequences);
  finished_.reserve(sequences);
  prompt_output_.prompt_logprobs.reserve(static_cast<size_t>(runner.options().limits.sampled));
  spare_logprobs_.resize(static_cast<size_t>(runner.options().limits.sampled));
  output_.tokens.reserve(1);
  output_.text.reserve(kTokenText);
  text_.reserve(kTokenText);
  const cache::Cache& cache = runner.cache();
  stats_.pages_total = cache.pages();
  stats_.slots_total = cache.slots();
  stats_.checkpoints_total = prefixes_.capacity();
  stats_.page_bytes = cache.pages() * cache.shape().bytes_per_page();
  stats_.slot_bytes = cache.slots() * cache.shape().bytes_per_slot();
  stats_.checkpoint_bytes = prefixes_.capacity() * cache::PrefixIndex::bytes_per_checkpoint(cache.shape());
}

void StepLoop::submit(Engine::Id id, Request request, Engine::Callback callback) {
  auto state = make_request_state(id, std::move(request), std::move(callback), facts_, arrivals_);
  arrivals_ += state->completions.size();
  if (state->request.deadline) ++with_deadline_;
  for (const auto& c : state->completions) scheduler_.add(*c);
  requests_.emplace(id, std::move(state));
}

void StepLoop::cancel(Engine::Id id) {
  const auto it = requests_.find(id);
  if (it != requests_.end()) end_all_of(*it->second, FinishReason::kCancelled, "");
  sweep();
}

void StepLoop::cancel_all() {
  for (const auto& [id, request] : requests_) end_all_of(*request, FinishReason::kCancelled, "");
  sweep();
}

void StepLoop::suspend(Engine::Id id) {
  const auto it = requests_.find(id);
  if (it == requests_.end()) return;
  for (const auto& c : it->second->completions) scheduler_.suspend(*c);
}

void StepLoop::hold(Engine::Id id, bool held) {
  const auto it = requests_.find(id);
  if (it == requests_.end()) return;
  for (const auto& c : it->second->completions) c->held = held;
  if (held) suspend(id);
}

std::optional<std::chrono::steady_clock::time_point> StepLoop::next_deadline() const {
  std::optional<std::chrono::steady_clock::time_point> first;
  for (const auto& [id, request] : requests_) {
    const auto& deadline = request->request.deadline;
    if (deadline && (!first || *deadline < *first)) first = deadline;
  }
  return first;
}

void StepLoop::expire_deadlines() {
  if (with_deadline_ == 0) return;
  const auto now = std::chrono::steady_clock::now();
  for (const auto& [id, request] : requests_) {
    if (request->request.deadline && *request->request.deadline <= now) {
      end_all_of(*request, FinishReason::kDeadline, "");
    }
  }
  sweep();
}

bool StepLoop::step() {
  const auto begin = std::chrono::steady_clock::now();
  expire_deadlines();
  const std::span<const PlannedRows> planned = scheduler_.plan();
  if (planned.empty()) return false;
  try {
    run_planned(planned);
  } catch (const std::exception& error) {
    // A fault of ours or of the device: what the step's sequences hold is unknown, so none of them may go on.
    for (const PlannedRows& p : planned) end_all_of(*p.completion->request, FinishReason::kError, error.what());
  }
  sweep();
  stats_.step_seconds += seconds_since(begin);
  return true;
}

void StepLoop::run_planned(std::span<const PlannedRows> planned) {
  batch_.clear();
  samples_.clear();
  sampled_.clear();
  for (const PlannedRows& p : planned) stage(p);
  runner_.forward(batch_);
  ++stats_.steps;
  for (const PlannedRows& p : planned) reuse_.take_due(*p.completion);
  if (sampled_.empty()) return;

  const bool wanted = std::any_of(sampled_.begin(), sampled_.end(), [](const SampledRows& s) {
    return s.scored || s.completion->request->request.top_logprobs >= 0;
  });
  const std::span<const float> logits = wanted ? runner_.read_logits() : std::span<const float>();
  const std::span<const Runner::Sample> drawn = runner_.sample(samples_);
  const auto width = static_cast<size_t>(facts_.vocabulary);
  for (const SampledRows& s : sampled_) {
    Completion& c = *s.completion;
    const auto of_rows = wanted ? logits.subspan(s.first * width, s.count * width) : logits;
    if (s.scored && !score_prompt(c, drawn.subspan(s.first, s.count), of_rows)) continue;
    if (!s.last) continue;
    const bool told = c.request->request.top_logprobs >= 0;
    commit(c, drawn[s.first + s.count - 1], told ? of_rows.last(width) : std::span<const float>());
  }
}

void StepLoop::stage(const PlannedRows& p) {
  Completion& c = *p.completion;
  const auto rows = static_cast<size_t>(p.rows);
  const bool scored = c.scores_prompt();
  batch_.push_back({.sequence = &c.sequence,
                    .tokens = std::span<const int32_t>(c.tokens).subspan(static_cast<size_t>(c.sequence.length), rows),
                    .sampled = scored   ? Sampled::kAll
                               : p.last ? Sampled::kLast
                                        : Sampled::kNone});
  stats_.prompt_tokens += std::min(p.rows, std::max<int64_t>(0, c.prompt_size - c.sequence.length));
  if (!scored && !p.last) return;
  const size_t first = samples_.size();
  samples_.resize(first + (scored ? rows : 1));  // of prompts greedily: only whether the logits are good counts
  if (p.last) samples_.back() = sampler_.prepare(c);
  sampled_.push_back(
      {.completion = &c, .first = first, .count = samples_.size() - first, .scored = scored, .last = p.last});
}

bool StepLoop::score_prompt(Completion& c, std::span<const Runner::Sample> drawn, std::span<const float> logits) {
  const auto width = static_cast<size_t>(facts_.vocabulary);
  Output& output = prompt_output_;
  output.choice = c.choice;
  for (size_t i = 0; i < drawn.size(); ++i) {
    const auto row = c.sequence.length - static_cast<int64_t>(drawn.size() - i);
    if (drawn[i].bad_logits && row < c.prompt_size - 1) {
      give_back_logprobs();
      Output last{.choice = c.choice, .error = "the logits are not finite"};
      finish(c, FinishReason::kError, last);
      return false;
    }
    if (row < c.prompt_scored || row >= c.prompt_size - 1) continue;  // told before it was run anew; or the answer's
    output.prompt_logprobs.push_back(std::move(spare_logprobs_.back()));
    spare_logprobs_.pop_back();
    token_logprob(logits.subspan(i * width, width), c.tokens[static_cast<size_t>(row) + 1],
                  c.request->request.prompt_logprobs, logprob_order_, output.prompt_logprobs.back());
    c.prompt_scored = row + 1;
  }
  if (!output.prompt_logprobs.empty()) deliver(c, output);
  give_back_logprobs();
  return true;
}

// Last in, first out, so that the same ones are used again, which have the memory they need.
void StepLoop::give_back_logprobs() {
  std::vector<TokenLogprob>& used = prompt_output_.prompt_logprobs;
  for (; !used.empty(); used.pop_back()) spare_logprobs_.push_back(std::move(used.back()));
}

void StepLoop::commit(Completion& c, Runner::Sample sample, std::span<const float> logits) {
  output_.choice = c.choice;
  output_.cached_tokens = c.cached_tokens;
  output_.tokens.clear();
  output_.text.clear();
  output_.finish = FinishReason::kNone;
  output_.error.clear();
  output_.stop_string.clear();
  if (sample.bad_logits || !c.mask_error.empty()) {
    output_.error = !c.mask_error.empty() ? c.mask_error
                    : c.mask              ? "no token is allowed here, or the logits are not finite"
                                          : "the logits are not finite";
    finish(c, FinishReason::kError, output_);
    return;
  }
  if (!logits.empty()) {
    token_logprob(logits, sample.id, c.request->request.top_logprobs, logprob_order_, logprob_[0]);
    output_.logprobs.swap(logprob_);
  }
  if (c.generated() == 0) reuse_.proven(c);
  ++stats_.generated_tokens;
  if (append(c, sample.id, output_)) {
    finish(c, output_.finish, output_);
  } else {
    deliver(c, output_);
  }
  if (!logits.empty()) output_.logprobs.swap(logprob_);
}

bool StepLoop::append(Completion& c, int32_t id, Output& output) {
  c.tokens.push_back(id);
  c.seen.add(id, /*generated=*/true);
  output.tokens.push_back(id);
  try {
    if (c.mask) c.mask->accept(id);
  } catch (const std::exception& error) {
    output.error = error.what();
    output.finish = FinishReason::kError;
    return true;
  }
  const bool early = c.generated() < c.request->request.min_tokens;
  if (!early && stops_at(c, id, facts_)) {
    output.finish = FinishReason::kStop;
    return true;
  }
  if (!tokenizer_.is_control(id)) {
    text_.clear();
    c.stops.push(tokenizer_.bytes(id), text_);
    c.characters.push(text_, output.text);
  }
  if (c.stops.matched()) {
    output.finish = FinishReason::kStop;
    output.stop_string = *c.stops.matched();
    return true;
  }
  if (static_cast<int64_t>(c.tokens.size()) >= c.max_size) output.finish = FinishReason::kLength;
  return output.finish != FinishReason::kNone;
}

void StepLoop::finish(Completion& c, FinishReason reason, Output& output) {
  output.finish = reason;
  if (!c.stops.matched()) {
    text_.clear();
    c.stops.finish(text_);
    c.characters.push(text_, output.text);
  }
  c.characters.finish(output.text);
  reuse_.ended(c, reason);
  scheduler_.remove(c);
  if (--c.request->unfinished == 0) finished_.push_back(c.request->id);
  if (publish_) publish_();
  deliver(c, output);
}

void StepLoop::end_all_of(RequestState& request, FinishReason reason, const std::string& error) {
  for (const auto& c : request.completions) {
    if (c->phase == Completion::Phase::kDone) continue;
    Output output{.choice = c->choice,
                  .tokens = {},
                  .text = {},
                  .logprobs = {},
                  .prompt_logprobs = {},
                  .error = error,
                  .stop_string = {},
                  .cached_tokens = c->cached_tokens};
    finish(*c, reason, output);
  }
}

// A caller whose callback throws gets no more calls; that is all that its request loses.
void StepLoop::deliver(Completion& c, const Output& output) {
  Engine::Callback& callback = c.request->callback;
  if (!callback) return;
  try {
    callback(c.request->id, output);
  } catch (...) {
    callback = nullptr;
  }
}

void StepLoop::sweep() {
  for (const Engine::Id id : finished_) {
    const auto it = requests_.find(id);
    if (it->second->request.deadline) --with_deadline_;
    requests_.erase(it);
  }
  finished_.clear();
}

EngineStats StepLoop::stats() const {
  EngineStats out = stats_;
  out.forward_seconds = runner_.forward_seconds();
  out.sample_seconds = runner_.sample_seconds();
  out.running = scheduler_.running();
  out.waiting = scheduler_.waiting();
  out.held = scheduler_.held();
  out.suspended_file_bytes = scheduler_.suspended_file_bytes();
  out.snapshot_failures = scheduler_.snapshot_failures();
  out.snapshot_error = scheduler_.snapshot_error();
  const cache::Cache& cache = runner_.cache();
  out.pages_free = cache.free_pages() + cache.idle_pages();
  out.pages_idle = cache.idle_pages();
  out.slots_free = cache.free_slots();
  out.checkpoints = prefixes_.checkpoints();
  out.prefix_query_tokens = reuse_.query_tokens();
  out.prefix_hit_tokens = reuse_.hit_tokens();
  out.suspensions = scheduler_.suspensions();
  out.suspended_bytes = scheduler_.suspended_bytes();
  return out;
}

}  // namespace nibble::engine
