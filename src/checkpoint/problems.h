// Faults of a checkpoint, gathered by kind, so that one refusal names them all: the first few of each, and how many.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace nibble::checkpoint {

class Problems {
 public:
  enum Kind { kMissing, kUnexpected, kDuplicate, kDType, kShape, kGroup, kForm, kPadding, kIndex, kScale };
  static constexpr int kKinds = 10;

  // `text` is called only for the few that are shown: there may be half a million faults.
  template <class Text>
  void add(Kind kind, const Text& text) {
    if (counts_[kind]++ < kShown) shown_[kind].push_back(text());
  }
  void merge(const Problems& other);

  int64_t count() const;
  // Throws a Refusal about `what` if there are any.
  void refuse_if_any(const std::string& what) const;

 private:
  static constexpr int64_t kShown = 4;
  std::array<int64_t, kKinds> counts_{};
  std::array<std::vector<std::string>, kKinds> shown_;
};

}  // namespace nibble::checkpoint
