// Multi-head latent attention over pages, without rotation.
#pragma once

#include "base/view.h"
#include "ops/sequences.h"
#include "ops/weight.h"

namespace nibble {
class Device;
}

namespace nibble::ops {

// Two forms of one product. Expanded: keys and values are widened from the latent, [k | v]_h = W_h c. Absorbed: the
// query goes into the latent instead, s = (q W_UK) . c, and the value comes out of it, o = W_UV (sum p c). They differ
// in rounding only; a model uses one of them for all its rows.
enum class MlaForm : uint8_t { kAbsorbed, kExpanded };

// Row t of sequence s attends to its positions 0..p(t), its own included (mla_append runs before).
//   score = (q_nope . k_nope + q_pe . shared_key) * scale;  out = softmax(score) v
//
// Shapes   q [T, A * (C + P)], per head C nope then P shared-key dims; kv_b [A * (C + V), R], per head C key rows then
// V
//          value rows; pool [pages * 64, R + P]; out [T, A * V].
// Rounds   fp32 inside. With bf16 rows, q W_UK, the mixed latent and the expanded keys and values land in bf16 as the
//          published code's do (6.1, 6.4); scores and probabilities stay fp32. One landing of out.
// Order    Products over a width run in 16 lanes, then a fixed tree; q W_UK adds its C rows ascending. Within a page
//          of 64 the values are added by ascending key, the probabilities in 16 lanes, then a fixed tree. Pages are
//          merged as (max, sum, value) in a fixed binary tree over the page index: the largest power of two of pages
//          that fits comes first, and so on inside it and after it. So neither tiles nor threads change a bit, and a
//          row depends on its position only, not on T nor on how rows are split into steps.
// Owns     scratch. Keys past a row's position are never read, so stale bytes in a page (NaN included) are harmless.
// Refuses  ContractError before any write: shapes or dtypes that differ, a kv_b whose cols its format cannot group,
//          scratch smaller than for the 64 P positions that `pages` can hold, out overlapping an input.
// Source   docs/model.md 6.1, 6.4.
struct MlaAttention {
  ConstRows q;        // [T, A * (C + P)]
  WeightMatrix kv_b;  // [A * (C + V), R]
  ConstRows pool;     // [pages * 64, R + P]
  Sequences sequences;
  int64_t heads = 0, nope_dim = 0, shared_dim = 0, value_dim = 0;
  float scale = 0.0f;
  MlaForm form = MlaForm::kAbsorbed;
  View1<std::byte> scratch;  // mla_attention_scratch_bytes
  Rows out;                  // [T, A * V]
};

// `max_positions`: the longest sequence that will be attended to; 64 times the columns of `pages` in a step's
// arguments.
size_t mla_attention_scratch_bytes(const Device& device, int64_t latent_dim, int64_t nope_dim, int64_t shared_dim,
                                   int64_t value_dim, int64_t max_positions);

void mla_attention(Device& device, const MlaAttention& args);

namespace reference {
void mla_attention(const MlaAttention& args);  // the expanded form in fp64
}

}  // namespace nibble::ops
