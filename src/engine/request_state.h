// A request inside the engine: what was asked, and each of its completions on the way.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "cache/snapshot.h"
#include "nibble/engine.h"
#include "ops/sequences.h"
#include "text/stop_strings.h"
#include "text/utf8_stream.h"

namespace nibble::engine {

// Tokens that a completion has seen, each once, with how often it was generated: what the penalties look at.
class SeenTokens {
 public:
  // Takes all memory that `length` tokens can need. Off, it holds nothing and add() does nothing.
  SeenTokens(bool on, int64_t vocabulary, int64_t length);
  void add(int32_t id, bool generated);
  const std::vector<int32_t>& ids() const { return ids_; }
  const std::vector<int32_t>& counts() const { return counts_; }

 private:
  std::vector<int32_t> place_;  // [N] where an id is in the other two, or -1
  std::vector<int32_t> ids_, counts_;
};

struct RequestState;

constexpr size_t kMaxCheckpoints = 16;  // that a prompt may leave behind

// One completion. All vectors have the capacity that they can need, so that steps do not allocate.
struct Completion {
  // Waiting: has no memory of the cache, for it has not begun, or is suspended. Running: takes part in steps. Done: its
  // last output is out.
  enum class Phase : uint8_t { kWaiting, kRunning, kDone };

  RequestState* request = nullptr;
  int32_t choice = 0;
  Phase phase = Phase::kWaiting;
  uint64_t arrival = 0;  // order among all completions of the engine
  uint64_t seed = 0;

  std::vector<int32_t> tokens;  // the prompt, then what was generated; those before sequence.length have been run
  int64_t prompt_size = 0;
  int64_t max_size = 0;  // of tokens, by max_tokens and by the context
  cache::Sequence sequence;
  cache::Snapshot suspended;  // what the sequence held, while it is suspended; empty: it runs its tokens anew

  // What others may reuse of it, see reuse.h.
  std::vector<int64_t> checkpoint_positions;  // still to come, ascending
  std::vector<int64_t> guessed_positions;     // of these, where nobody is known to part
  std::vector<int32_t> saved_checkpoints;     // taken, and not yet in the prefix index
  std::vector<int32_t> guessed_checkpoints;   // of these
  int32_t begun_from = -1;                    // the checkpoint that it started from, and the last that it left
  uint64_t begun_from_serial = 0;
  int32_t left = -1;
  uint64_t left_serial = 0;
  int64_t cached_tokens = 0;  // of the prompt, that it did not run
  int64_t prompt_scored = 0;  // rows of the prompt whose predictions have been told, where they were asked for

  SeenTokens seen;
  std::vector<int32_t> bias_ids;  // the request's, the never-sampled ids, then those that would stop it
  std::vector<float> bias_values;
  size_t bias_early = 0, bias_always = 0;  // how many of them hold before min_tokens, and after
  std::unique_ptr<TokenMask> mask;         // its bans go behind them, anew for each token
  std::string mask_error;                  // what it threw: the end of this completion, and of no other

  text::StopStrings stops;
  text::Utf8Stream characters;
  bool held = false;  // by who asked for it: does not start or go on until released

  Completion(RequestState& owner, int32_t choice, SeenTokens seen_tokens);
  int64_t generated() const { return static_cast<int64_t>(tokens.size()) - prompt_size; }
  bool scores_prompt() const;  // all of its rows want logits
  int64_t pending() const { return static_cast<int64_t>(tokens.size()) - sequence.length; }
};

struct RequestState {
  Engine::Id id = 0;
  Request request;
  Engine::Callback callback;
  std::vector<std::unique_ptr<Completion>> completions;
  int32_t unfinished = 0;
};

// What the engine knows of the model when it takes a request in.
struct ModelFacts {
  int64_t vocabulary = 0;
  int64_t context = 0;
  std::vector<int32_t> stop_ids;       // that end an answer unless ignore_eos
  std::vector<int32_t> never_sampled;  // that only a broken model wants: [PAD], [UNK]
  int32_t turn_end = -1;               // the token that ends a turn of a conversation
};

// `first_arrival` numbers the first completion, the others follow.
std::unique_ptr<RequestState> make_request_state(Engine::Id id, Request request, Engine::Callback callback,
                                                 const ModelFacts& facts, uint64_t first_arrival);

// True where `id` ends the completion as its stop token.
bool stops_at(const Completion& completion, int32_t id, const ModelFacts& facts);

}  // namespace nibble::engine
