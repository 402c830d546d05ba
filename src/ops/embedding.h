// Token ids to rows of the embedding table.
#pragma once

#include "base/view.h"
#include "ops/weight.h"

namespace nibble {
class Device;
}

namespace nibble::ops {

// out[t] = table[tokens[t]]; no scaling.
//
// Shapes   T rows (0 allowed), D columns, N table rows.
// Rounds   A bf16 or fp32 table value into the dtype of out: exact except fp32 into bf16, which lands.
// Order    None: rows are copies.
// Owns     Nothing; no scratch.
// Refuses  ContractError before any write: a table that is neither bf16 nor fp32, shapes that differ. An id outside
//          0..N-1 gives a row of zeros and never reads the table.
// Source   docs/model.md 4.
struct Embedding {
  View1<const int32_t> tokens;  // [T]
  WeightMatrix table;           // [N, D]
  Rows out;                     // [T, D]
};

void embedding(Device& device, const Embedding& args);

namespace reference {
void embedding(const Embedding& args);
}

}  // namespace nibble::ops
