#include "serve/admission.h"

#include <fmt/format.h>

#include <utility>

namespace nibble::serve {

std::optional<ApiError> Admission::refusal_locked(int64_t choices) const {
  if (draining_) return unavailable("the server is shutting down", "draining");
  if (choices > most_) {
    return invalid(fmt::format("the request is for {} answers; at most {} can wait", choices, most_), "n");
  }
  if (sequences_ + choices <= most_) return {};
  return ApiError{.status = 429,
                  .type = "rate_limit_error",
                  .message = fmt::format("{} sequences are in the queue, which is full", sequences_),
                  .code = "queue_full",
                  .retry_after = 1};
}

std::optional<ApiError> Admission::refusal(int64_t choices) const {
  const std::lock_guard lock(mutex_);
  return refusal_locked(choices);
}

std::optional<ApiError> Admission::enter(int64_t choices) {
  const std::lock_guard lock(mutex_);
  if (std::optional<ApiError> refusal = refusal_locked(choices)) return refusal;
  sequences_ += choices;
  ++in_progress_;
  return {};
}

void Admission::enter_work() {
  const std::lock_guard lock(mutex_);
  ++in_progress_;
}

void Admission::release(int64_t choices) {
  const std::lock_guard lock(mutex_);
  sequences_ -= choices;
}

void Admission::leave() {
  std::function<void()> drained;
  {
    const std::lock_guard lock(mutex_);
    if (--in_progress_ == 0) drained = std::exchange(drained_, nullptr);
  }
  if (drained) drained();
}

void Admission::drain(std::function<void()> drained) {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    if (in_progress_ > 0) drained_ = std::exchange(drained, nullptr);
  }
  if (drained) drained();
}

bool Admission::draining() const {
  const std::lock_guard lock(mutex_);
  return draining_;
}

}  // namespace nibble::serve
