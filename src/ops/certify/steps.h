// Steps for certifying ops that work on sequences: some sequences' rows, over a shuffled pool of pages.
#pragma once

#include <span>
#include <vector>

#include "ops/certify/workspace.h"
#include "ops/sequences.h"

namespace nibble::ops::certify {

// `rows` rows of a sequence from `position` on; 0 rows are legal.
struct Span {
  int32_t position = 0, rows = 0;
};

// The step of these spans. Sequence s has slot and pages of its own; page p of sequence s is page_of(s, p), so
// neighbouring pages of a sequence are not neighbours in the pool.
class Step {
 public:
  Step(std::span<const Span> spans, int64_t pages_each);

  int64_t rows() const { return static_cast<int64_t>(row_sequence_.size()); }
  int64_t pages() const { return sequences() * pages_each_; }
  int32_t page_of(int64_t sequence, int64_t page) const;
  // The pool row of a sequence's position.
  int64_t pool_row(int64_t sequence, int64_t position) const {
    return page_of(sequence, position / kPageTokens) * kPageTokens + position % kPageTokens;
  }
  Sequences place(Workspace& memory) const;

 private:
  int64_t sequences() const { return static_cast<int64_t>(position_.size()); }

  int64_t pages_each_;
  std::vector<int32_t> row_begin_, position_, slot_, row_sequence_, pages_;
};

}  // namespace nibble::ops::certify
