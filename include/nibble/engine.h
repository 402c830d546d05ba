// nibble as a library: load a checkpoint, submit requests, stream what they produce.
//
// Thread-safe. One engine thread runs the steps; callbacks run on it, one at a time, and must return soon. A request's
// greedy tokens are the same bits whatever else the engine is doing, and its samples depend only on its own seed.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nibble/constraint.h"
#include "nibble/token_mask.h"

namespace nibble {

enum class Precision : uint8_t {
  kBf16,   // activations land in bf16 where the published code lands them
  kExact,  // fp32 activations
};

struct EngineOptions {
  std::filesystem::path model;   // a checkpoint directory as published
  std::string device = "cpu";    // "cuda", "cuda:N", "auto": the best there is
  std::string isa;               // "portable", "avx2", "avx512", "avx512bf16", "amx"; empty: the best
  int threads = 0;               // 0: one a physical core
  std::string pinning = "auto";  // "on": each thread stays on a processor of its own; "off": it does not; "auto": it
                                 // does where `threads` is 0 and the machine has several NUMA nodes
  std::string numa = "auto";     // "interleave": what the thread that makes the engine, and each that it starts from
                                 // then on, touches first goes to the NUMA nodes of the engine's threads in turn,
                                 // weights that are read from files too; "off": where the system puts it; "auto":
                                 // interleaved where several threads lie on several nodes, and no policy is set
  std::string dense = "bf16";    // "fp8", "mxfp8" or "mxfp4": the bf16 projections are rewritten so on load, in memory
  bool mlock = false;            // the whole checkpoint is read on load, and stays in memory
  int64_t context = 0;           // tokens a sequence may reach; 0: what the model allows, as far as memory goes
  int64_t max_sequences = 16;    // running at once
  int64_t step_tokens = 256;     // rows a step may have: longer prompts go in chunks
  int64_t cache_bytes = 0;       // for all state of all sequences; 0: what they can need, but no more than half of what
                                 // the machine has free
  int64_t checkpoint_bytes = -1;      // of cache_bytes, for copies of state that later prompts begin from; 0: no reuse;
                                      // -1: a quarter at most
  int64_t checkpoint_interval = 256;  // tokens between such copies within a long prompt, a multiple of 64
  int64_t suspended_bytes = -1;       // of host memory, besides cache_bytes and only while it is needed, for requests
                                      // that had to make way. -1: half of cache_bytes
  std::filesystem::path suspend_directory;  // for files with those that host memory has no room for; empty: no files,
                                            // and they run anew, which gives the same bits
  int64_t suspended_file_bytes = -1;        // of those files; -1: as long as the disk takes them
  Precision precision = Precision::kBf16;
  bool record_steps = true;  // steps of one token a sequence as graphs, on devices that gain from it; the same bits
  std::string mla_form = "absorbed";                                          // or "expanded"
  std::function<void(std::string_view phase, int done, int total)> progress;  // while loading
  std::function<void(std::string_view line)> warn = {};  // what was wished for, cannot be had, and is done without
};

struct SamplingParams {
  float temperature = 1.0f;  // below 1e-5: greedy
  float top_p = 0.95f, min_p = 0.0f;
  int32_t top_k = 0;  // 0: all
  float repetition_penalty = 1.0f, frequency_penalty = 0.0f, presence_penalty = 0.0f;
  std::optional<uint64_t> seed;                       // none: a random one
  std::vector<std::pair<int32_t, float>> logit_bias;  // added to logits; -inf bans
};

struct Request {
  std::vector<int32_t> prompt;  // token ids; not empty
  SamplingParams sampling;
  int64_t max_tokens = 0;  // 0: until the context is full
  int64_t min_tokens = 0;  // no stop before
  bool ignore_eos = false;
  std::vector<int32_t> stop_ids;                                  // besides the model's own
  std::vector<std::string> stop_strings;                          // matched on the generated text; not part of it
  int32_t top_logprobs = -1;                                      // alternatives a token; -1: no logprobs at all
  int32_t prompt_logprobs = -1;                                   // the same for the prompt, which is then run whole
  int32_t choices = 1;                                            // completions of the one prompt
  int32_t priority = 0;                                           // higher goes first; equals go in order of arrival
  std::optional<std::chrono::steady_clock::time_point> deadline;  // ended with kDeadline where it takes longer
  Constraint constraint;                                          // on the text, or on a chat's answer
  std::function<std::unique_ptr<TokenMask>()> token_mask;         // one of your own instead: called once a choice
};

enum class FinishReason : uint8_t { kNone, kStop, kLength, kCancelled, kError, kDeadline };
std::string_view name_of(FinishReason reason);  // "stop", "length", "cancelled", "error", "deadline"

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0.0f;
  std::vector<std::pair<int32_t, float>> top;  // the likeliest, descending
};

// What a step brought for one choice of a request.
struct Output {
  int32_t choice = 0;
  std::vector<int32_t> tokens;                // new ones, the stop token included
  std::string text;                           // of the tokens, whole characters, without control tokens and without
                                              // what is, or may yet become, a stop string
  std::vector<TokenLogprob> logprobs;         // as many as tokens, where asked for
  std::vector<TokenLogprob> prompt_logprobs;  // of the prompt's next tokens, from its second on, where asked for: come
                                              // in outputs of their own before the first token's
  FinishReason finish = FinishReason::kNone;  // the last output of a choice says why it ended
  std::string error;                          // for kError
  std::string stop_string;                    // the one that matched
  int64_t cached_tokens = 0;                  // of the prompt, that an earlier request's state stood in for
};

struct EngineStats {
  int64_t running = 0, waiting = 0;
  int64_t prompt_tokens = 0, generated_tokens = 0, steps = 0;
  double step_seconds = 0, forward_seconds = 0, sample_seconds = 0;  // of all steps; of these in the model, in sampling
  int64_t pages_total = 0, pages_free = 0, slots_total = 0, slots_free = 0;  // free: those kept for reuse too
  int64_t pages_idle = 0;                                                    // free, but kept for reuse until needed
  int64_t checkpoints_total = 0, checkpoints = 0;                            // copies of state; that later prompts find
  int64_t page_bytes = 0, slot_bytes = 0, checkpoint_bytes = 0;              // how the cache's memory is split
  int64_t prefix_query_tokens = 0, prefix_hit_tokens = 0;                    // of prompts: looked up, and found
  int64_t suspensions = 0;                                                   // so far
  int64_t suspended_bytes = 0, suspended_file_bytes = 0;                     // of host memory and of files, now
  int64_t held = 0;                                                          // completions that wait for resume()
  int64_t snapshot_failures = 0;  // files that could not be written, or read as written: those
  std::string snapshot_error;     // completions ran anew; the last one's reason
};

class Engine {
 public:
  using Id = uint64_t;
  using Callback = std::function<void(Id id, const Output& output)>;

  // Throws Refusal: see docs/refusals.md.
  explicit Engine(const EngineOptions& options);
  ~Engine();  // cancels what is left
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Throws Refusal for a prompt that is empty, too long, or holds ids outside the vocabulary, and for a constraint that
  // cannot be compiled, which is done here, on the caller's thread. `callback` may be called before submit returns.
  Id submit(Request request, Callback callback);
  // Takes effect before the next step; the request still gets its last output, with kCancelled.
  void cancel(Id id);
  // Takes effect before the next step: the request makes way, what it has is kept (in host memory, in a file, or to be
  // run anew), and it does not go on, or start, until resume(). Its tokens are the same bits as without. Deadlines go
  // on, and it can be cancelled.
  void suspend(Id id);
  void resume(Id id);
  // Submits and waits: all choices, each with every token it produced.
  std::vector<Output> run(Request request);

  EngineStats stats() const;
  int64_t context() const;  // tokens a sequence may reach
  int64_t vocabulary() const;
  std::string_view device() const;  // "cpu avx2"

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble
