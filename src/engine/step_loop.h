// The engine without its thread: requests in, one step at a time, outputs out.
//
// A step is: plan (scheduler), run (runner), sample, commit (append the tokens, decide who is finished, tell the
// callers). Everything here happens on one thread and in an order that depends on the calls alone, so a test that
// replays the calls replays the run. No method may be called from inside a callback.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "cache/prefix_index.h"
#include "engine/request_state.h"
#include "engine/reuse.h"
#include "engine/runner.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"
#include "text/tokenizer.h"

namespace nibble::engine {

class StepLoop {
 public:
  // All three must outlive it. `publish`, where given, is called before each last output: who has seen that finds its
  // request's memory given back.
  StepLoop(Runner& runner, const text::Tokenizer& tokenizer, const ModelFacts& facts,
           std::function<void()> publish = nullptr);

  // Takes in a request that is valid (validate.h).
  void submit(Engine::Id id, Request request, Engine::Callback callback);
  // No effect on a request that is finished or unknown.
  void cancel(Engine::Id id);
  void cancel_all();
  // Those of its completions that run make way, and go on when it is their turn again: what the scheduler does where
  // memory is short.
  void suspend(Engine::Id id);
  // Its completions make way and do not go on, nor start, until it is no longer held.
  void hold(Engine::Id id, bool held);

  // Runs one step. False where there is nothing to do.
  bool step();
  bool idle() const { return requests_.empty(); }
  // When somebody's time is up, where step() found nothing to do.
  std::optional<std::chrono::steady_clock::time_point> next_deadline() const;

  EngineStats stats() const;

 private:
  void expire_deadlines();
  void run_planned(std::span<const PlannedRows> planned);
  void stage(const PlannedRows& planned);
  // Tells the predictions that rows of a prompt made for its next tokens. False where the completion ended with it.
  bool score_prompt(Completion& completion, std::span<const Runner::Sample> drawn, std::span<const float> logits);
  void give_back_logprobs();
  void commit(Completion& completion, Runner::Sample sample, std::span<const float> logits);
  // Everything that a new token brings: text, stops, logprobs. True where the completion ends with it.
  bool append(Completion& completion, int32_t id, Output& output);
  void finish(Completion& completion, FinishReason reason, Output& output);
  void end_all_of(RequestState& request, FinishReason reason, const std::string& error);
  void deliver(Completion& completion, const Output& output);
  void sweep();

  Runner& runner_;
  const text::Tokenizer& tokenizer_;
  const ModelFacts& facts_;
  std::function<void()> publish_;
  cache::PrefixIndex prefixes_;
  Reuse reuse_;
  Scheduler scheduler_;
  Sampler sampler_;
  std::unordered_map<Engine::Id, std::unique_ptr<RequestState>> requests_;
  std::vector<Engine::Id> finished_;  // to be forgotten once the step is over
  uint64_t arrivals_ = 0;
  int64_t with_deadline_ = 0;

  std::vector<SequenceRows> batch_;
  std::vector<SampleRequest> samples_;
  struct SampledRows {  // rows of a completion whose logits were computed
    Completion* completion = nullptr;
    size_t first = 0, count = 0;  // among all of the step's
    bool scored = false;          // they are of a prompt whose predictions are wanted
    bool last = false;            // and a token is drawn from the last
  };
  std::vector<SampledRows> sampled_;
  // Reused from token to token, so that a step does not allocate.
  Output output_, prompt_output_;
  std::vector<TokenLogprob> spare_logprobs_;  // for prompt_output_, which takes as many as it needs and gives them back
  std::string text_;
  std::vector<TokenLogprob> logprob_ = std::vector<TokenLogprob>(1);  // lent to output_ where logprobs are wanted
  std::vector<int32_t> logprob_order_;
  EngineStats stats_;
};

}  // namespace nibble::engine
