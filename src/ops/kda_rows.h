// Kimi Delta Attention over any number of rows, in the segment-canonical form.
#pragma once

#include <vector>

#include "base/view.h"
#include "ops/sequences.h"

namespace nibble {
class Device;
}

namespace nibble::ops {

// What centres the exponents of a segment: with G in [-80, 0], e^G kKdaScale and e^-G / kKdaScale both stay within
// 2^+-58 (e^+-40). A power of two, so that it costs no rounding; adding 40 to G would cost three digits of it.
constexpr float kKdaScale = 0x1p58f;

// The gated delta rule: S <- S diag(e^g); d = beta (v - S k); S <- S + d k^T; o = S q, with q and k of unit length
// (x / sqrt(sum x^2 + 1e-6)) and q times K^-0.5.
//
// Positions are cut into segments of 16 at absolute multiples of 16. A sequence's state is S0, the recurrent state at
// the last boundary, plus one record for each later position. With G the cumulative log decay inside the segment and
// k~ = k e^-G / c, c = 2^58, row i of a segment is, however many rows come at once,
//   a_j  = k~_j . (k e^G c),  b_j = k~_j . (q e^G c)
//   v'   = beta (v - S0 (k e^G) - sum_{j<i} a_j v'_j)
//   o    = S0 (q e^G) + sum_{j<=i} b_j v'_j
// and the row leaves the record (G, k~, v'). The last row of a segment folds it:
//   S0  <- S0 e^G_15 + sum_j v'_j (k~_j e^G_15 c)^T        (factors scale key channels)
// Chunks, single tokens and drafts are therefore the same arithmetic, bit for bit.
//
// Shapes   q, k [T, A * K]; v, out [T, A * V]; decay [T, A * K] in [-5, 0]; beta [T, A]; state [slots, A, V, K];
//          records [slots, A, 16, 2 K + V], each (G, k~, v').
// Rounds   fp32 throughout; out lands once.
// Order    Sums over K in 16 lanes, then a fixed tree; sums over j ascending. Results do not depend on how rows are
//          split into steps nor on which sequences share one.
// Owns     State and records of each sequence's slot. In a sequence's first segment S0 counts as zero and is not read,
//          and records of positions not yet reached are not read, so a recycled slot needs no clearing. Other slots
//          are untouched, S0 of a sequence that ends no segment too.
// Refuses  ContractError before any write: shapes or dtypes that differ, out overlapping an input, scratch too small.
// Source   docs/model.md 5.3, 5.6, 5.7; design: docs/adr/0002.
struct KdaRows {
  ConstRows q, k;            // [T, A * K], not normalised
  ConstRows v;               // [T, A * V], dtype of q and k
  View2<const float> decay;  // [T, A * K]
  View2<const float> beta;   // [T, A]
  View1<float> state;        // [slots, A, V, K]
  View1<float> records;      // [slots, A, 16, 2 K + V]
  int64_t heads = 0, key_dim = 0, value_dim = 0;
  Sequences sequences;
  Rows out;                  // [T, A * V], dtype of v
  View1<std::byte> scratch;  // kda_rows_scratch_bytes, aligned to a float
};

// What one worker needs: k e^G and q e^G of sixteen rows, plain and times c, S0's two products with those rows, a and
// b, and S0 itself. Widths are rounded up to whole vectors.
[[gnu::always_inline]] constexpr int64_t kda_rows_scratch_floats(int64_t key_dim, int64_t value_dim) {
  const int64_t keys = (key_dim + 15) / 16 * 16, values = (value_dim + 15) / 16 * 16;
  return 2 * kSegmentTokens * (2 * keys + values + kSegmentTokens) + keys * values;
}
// As the device's kernels say.
size_t kda_rows_scratch_bytes(const Device& device, int64_t key_dim, int64_t value_dim);

void kda_rows(Device& device, const KdaRows& args);

namespace reference {

// The plain recurrence, token by token in fp64, from the state that (state, records) stand for. Writes `out` and, if
// asked for, the states after the step as [S, A, V, K]; leaves state and records alone, so it goes before the kernel
// where both share memory.
void kda_rows(const KdaRows& args, std::vector<double>* states = nullptr);

// Host copies of the two pools.
struct KdaPools {
  View1<const float> state, records;
  int64_t heads = 0, key_dim = 0, value_dim = 0;
};

// The recurrent state [V, K] of one head of a sequence that has seen `position` tokens and lives in `slot`: S0 carried
// over the position % 16 records since the last boundary, S0 being zero before the first.
std::vector<double> recurrent_state(const KdaPools& pools, int64_t slot, int64_t head, int64_t position);

}  // namespace reference

}  // namespace nibble::ops
