// A bump allocator over memory that is fixed at construction, so that nothing allocates in a step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"

namespace nibble {

class Arena {
 public:
  static constexpr size_t kAlignment = 64;  // a cache line, and the widest vector load

  Arena() = default;
  Arena(std::byte* base, size_t capacity) : base_(base), capacity_(capacity) {}

  std::byte* take(size_t bytes) {
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (rounded > capacity_ - used_) {
      throw ContractError("arena: " + std::to_string(rounded) + " bytes asked, " + std::to_string(capacity_ - used_) +
                          " of " + std::to_string(capacity_) + " left; the plan that sized it is wrong");
    }
    std::byte* out = base_ + used_;
    used_ += rounded;
    peak_ = std::max(peak_, used_);
    return out;
  }
  template <class T>
  T* take_array(int64_t count) {
    return reinterpret_cast<T*>(take(static_cast<size_t>(count) * sizeof(T)));
  }

  size_t mark() const { return used_; }
  void rewind(size_t mark) { used_ = mark; }
  size_t peak() const { return peak_; }
  size_t capacity() const { return capacity_; }

 private:
  std::byte* base_ = nullptr;
  size_t capacity_ = 0, used_ = 0, peak_ = 0;
};

}  // namespace nibble
