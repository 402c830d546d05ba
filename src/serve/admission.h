// How much is in progress, on all threads, and whether more may come. Every call is from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "serve/errors.h"

namespace nibble::serve {

class Admission {
 public:
  // Sequences that run at once, and that wait for it.
  Admission(int64_t max_sequences, int64_t max_waiting) : most_(max_sequences + max_waiting) {}

  // What enter() would say: asked before the work of reading.
  std::optional<ApiError> refusal(int64_t choices) const;
  // Counts a request for so many answers in, or says why not. Its places are free again from release() on, which comes
  // before the last of its answer is written: whoever has read that may come again at once. It is waited for until
  // leave().
  std::optional<ApiError> enter(int64_t choices);
  void release(int64_t choices);
  // Work that has no answers yet, or never will, is waited for as well.
  void enter_work();
  void leave();

  // Nobody enters any more. Once the last has left `drained` is called, by whoever that was.
  void drain(std::function<void()> drained);
  bool draining() const;

 private:
  std::optional<ApiError> refusal_locked(int64_t choices) const;

  const int64_t most_;
  mutable std::mutex mutex_;
  int64_t sequences_ = 0;
  int64_t in_progress_ = 0;  // requests, and work
  bool draining_ = false;
  std::function<void()> drained_;
};

}  // namespace nibble::serve
