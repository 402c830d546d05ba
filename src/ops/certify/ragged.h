// The sequences of a step, in the words a test thinks in.
#pragma once

#include <vector>

#include "ops/certify/workspace.h"
#include "ops/sequences.h"

namespace nibble::ops::certify {

// One entry a sequence.
struct Ragged {
  std::vector<int32_t> rows, position, slot;
};

int64_t total_rows(const Ragged& ragged);

// Without pages.
Sequences sequences(Workspace& memory, const Ragged& ragged);

}  // namespace nibble::ops::certify
