#include "ops/certify/steps.h"

namespace nibble::ops::certify {

Step::Step(std::span<const Span> spans, int64_t pages_each) : pages_each_(pages_each), row_begin_{0} {
  const auto count = static_cast<int32_t>(spans.size());
  for (int32_t s = 0; s < count; ++s) {
    const Span& span = spans[static_cast<size_t>(s)];
    position_.push_back(span.position);
    slot_.push_back(count - 1 - s);
    row_begin_.push_back(row_begin_.back() + span.rows);
    row_sequence_.insert(row_sequence_.end(), static_cast<size_t>(span.rows), s);
  }
  for (int32_t s = 0; s < count; ++s) {
    for (int64_t p = 0; p < pages_each; ++p) pages_.push_back(page_of(s, p));
  }
}

// Sequences alternate, and each runs backwards.
int32_t Step::page_of(int64_t sequence, int64_t page) const {
  return static_cast<int32_t>((pages_each_ - 1 - page) * sequences() + sequence);
}

Sequences Step::place(Workspace& memory) const {
  return {.row_begin = memory.vector(row_begin_),
          .position = memory.vector(position_),
          .slot = memory.vector(slot_),
          .row_sequence = memory.vector(row_sequence_),
          .pages = memory.matrix(sequences(), pages_each_, pages_)};
}

}  // namespace nibble::ops::certify
