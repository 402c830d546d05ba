#include "ops/certify/ragged.h"

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

}  // namespace nibble::ops::certify
