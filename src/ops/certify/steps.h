// Steps for certifying ops that work on sequences.
#pragma once

#include <span>
#include <vector>

#include "ops/certify/workspace.h"
#include "ops/sequences.h"

namespace nibble::ops::certify {

// The sequences of a step, in the words a test thinks in; one entry a sequence.
struct Ragged {
  std::vector<int32_t> rows, position, slot;
};

int64_t total_rows(const Ragged& ragged);

// Without pages.
Sequences sequences(Workspace& memory, const Ragged& ragged);

// `rows` rows of a sequence from `position` on; 0 rows are legal.
struct Span {
  int32_t position = 0, rows = 0;
};

// The step of these spans, over a shuffled pool of pages. Sequence s has slot and pages of its own; page p of sequence
// s is page_of(s, p), so neighbouring pages of a sequence are not neighbours in the pool.
class Step {
 public:
  Step(std::span<const Span> spans, int64_t pages_each);

  int64_t rows() const { return total_rows(ragged_); }
  int64_t pages() const { return sequences() * pages_each_; }
  int32_t page_of(int64_t sequence, int64_t page) const;
  // The pool row of a sequence's position.
  int64_t pool_row(int64_t sequence, int64_t position) const {
    return page_of(sequence, position / kPageTokens) * kPageTokens + position % kPageTokens;
  }
  Sequences place(Workspace& memory) const;

 private:
  int64_t sequences() const { return static_cast<int64_t>(ragged_.rows.size()); }

  Ragged ragged_;
  int64_t pages_each_;
  std::vector<int32_t> pages_;
};

}  // namespace nibble::ops::certify
