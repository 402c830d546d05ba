#include "ops/certify/steps.h"

#include <numeric>

namespace nibble::ops::certify {

int64_t total_rows(const Ragged& ragged) { return std::accumulate(ragged.rows.begin(), ragged.rows.end(), int64_t{0}); }

Sequences sequences(Workspace& memory, const Ragged& ragged) {
  std::vector<int32_t> row_begin = {0}, row_sequence;
  for (size_t s = 0; s < ragged.rows.size(); ++s) {
    row_begin.push_back(row_begin.back() + ragged.rows[s]);
    row_sequence.resize(static_cast<size_t>(row_begin.back()), static_cast<int32_t>(s));
  }
  return {.row_begin = memory.vector(row_begin),
          .position = memory.vector(ragged.position),
          .slot = memory.vector(ragged.slot),
          .row_sequence = memory.vector(row_sequence),
          .pages = {}};
}

Step::Step(std::span<const Span> spans, int64_t pages_each) : pages_each_(pages_each) {
  const auto count = static_cast<int32_t>(spans.size());
  for (int32_t s = 0; s < count; ++s) {
    const Span& span = spans[static_cast<size_t>(s)];
    ragged_.rows.push_back(span.rows);
    ragged_.position.push_back(span.position);
    ragged_.slot.push_back(count - 1 - s);
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
  Sequences placed = certify::sequences(memory, ragged_);
  placed.pages = memory.matrix(sequences(), pages_each_, pages_);
  return placed;
}

}  // namespace nibble::ops::certify
