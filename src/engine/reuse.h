// What requests leave behind for those that begin like them, and where: the policy above cache/prefix_index.h.
//
// A prompt leaves checkpoints of its state where a later prompt is likely to part from it: before its last token, or
// where it is long, its last page or a turn's end in that (the same prompt again), at the ends of its first and its
// last turn (another question after the same instructions), where the index has pages of it but no state (somebody
// parted from it there already), and every so many tokens, which is a guess: those are cold from the start. A finished
// answer leaves one at its end, where the next turn of its conversation begins. Only sequences that have brought a good
// token are believed; what a failed one began with is forgotten.
#pragma once

#include <cstdint>

#include "cache/prefix_index.h"
#include "engine/request_state.h"

namespace nibble::engine {

struct ReuseOptions {
  int64_t interval = 256;  // tokens between checkpoints within a prompt, a multiple of 64
  int32_t turn_end = -1;   // the token that ends a turn; -1: none does
};

class Reuse {
 public:
  // `index` must outlive it.
  Reuse(cache::PrefixIndex& index, const ReuseOptions& options) : index_(index), options_(options) {}

  cache::PrefixIndex& index() { return index_; }

  // The pages of what the completion can begin with go to its sequence, which is empty.
  cache::PrefixIndex::Hit begin(Completion& completion);
  // The sequence has its slot and pages: the rest of the hit goes there, and where checkpoints are due is decided.
  void begun(Completion& completion, const cache::PrefixIndex::Hit& hit);
  // Another choice of the same request is about to leave what this one can begin with.
  bool worth_waiting(const Completion& completion) const;

  // Rows that it may run before a checkpoint is due.
  int64_t rows_allowed(const Completion& completion) const;
  // After rows of it were enqueued, before any more are.
  void take_due(Completion& completion);
  // A good token was sampled for the first time.
  void proven(Completion& completion);
  // Before its memory goes.
  void ended(Completion& completion, FinishReason reason);
  // Its rows are gone, and it will run them anew: nothing is due any more.
  void restarted(Completion& completion);

  int64_t query_tokens() const { return query_tokens_; }
  int64_t hit_tokens() const { return hit_tokens_; }

 private:
  int64_t end_of_prompt(const Completion& completion) const;
  void decide_positions(Completion& completion, const cache::PrefixIndex::Hit& hit);
  void discard_saved(Completion& completion);

  cache::PrefixIndex& index_;
  ReuseOptions options_;
  int64_t query_tokens_ = 0, hit_tokens_ = 0;  // of prompts: that were looked up, and that were found
};

}  // namespace nibble::engine
