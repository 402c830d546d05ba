// Kimi Delta Attention over any number of rows, in the segment-canonical form.
#pragma once

#include "base/view.h"
#include "ops/sequences.h"

namespace nibble {
class Device;
}

namespace nibble::ops {

// The gated delta rule: S <- S diag(e^g); d = beta (v - S k); S <- S + d k^T; o = S q, with q and k of unit length
// (x / sqrt(sum x^2 + 1e-6)) and q times K^-0.5.
//
// Positions are cut into segments of 16 at absolute multiples of 16. A sequence's state is S0, the recurrent state at
// the last boundary, plus one record for each later position. With G the cumulative log decay inside the segment and
// k~ = k e^(-G - 40), row i of a segment is, however many rows come at once,
//   a_j  = k~_j . (k e^(G + 40)),  b_j = k~_j . (q e^(G + 40))
//   v'   = beta (v - S0 (k e^G) - sum_{j<i} a_j v'_j)
//   o    = S0 (q e^G) + sum_{j<=i} b_j v'_j
// and the row leaves the record (G, k~, v'). The last row of a segment folds it:
//   S0  <- S0 e^G_15 + (sum_j v'_j k~_j^T) e^(G_15 + 40)        (factors scale key channels)
// Chunks, single tokens and drafts are therefore the same arithmetic, bit for bit.
//
// Shapes   q, k, v [T, A * K], [T, A * K], [T, A * V]; decay [T, A * K] in (-5, 0); beta [T, A]; state [slots, A, V,
// K];
//          records [slots, A, 16, 2 K + V], each (G, k~, v'); out [T, A * V].
// Rounds   fp32 throughout; out lands once.
// Order    Sums over K in 16 lanes, then a fixed tree; sums over j ascending. Results do not depend on how rows are
//          split into steps nor on which sequences share one.
// Owns     State and records of each sequence's slot. In a sequence's first segment S0 counts as zero and is not read,
//          so a recycled slot needs no clearing. Other slots are untouched.
// Refuses  ContractError before any write: shapes that differ, out overlapping an input.
// Source   docs/model.md 5.3, 5.6, 5.7; design: docs/adr/0002.
struct KdaRows {
  ConstRows q, k;            // [T, A * K], not normalised
  ConstRows v;               // [T, A * V]
  View2<const float> decay;  // [T, A * K]
  View2<const float> beta;   // [T, A]
  View1<float> state;        // [slots, A, V, K]
  View1<float> records;      // [slots, A, 16, 2 K + V]
  int64_t heads = 0, key_dim = 0, value_dim = 0;
  Sequences sequences;
  Rows out;                  // [T, A * V], dtype of v
  View1<std::byte> scratch;  // kda_rows_scratch_bytes
};

size_t kda_rows_scratch_bytes(const Device& device, int64_t key_dim, int64_t value_dim);

void kda_rows(Device& device, const KdaRows& args);

namespace reference {
// The plain recurrence, token by token in fp64, from the state that (state, records) stand for; does not write records
// in the kernel's form but folds them into `state` at position 0 of a segment: see kda_rows.cc.
void kda_rows(const KdaRows& args);
}  // namespace reference

}  // namespace nibble::ops
