// The attention residual: a softmax over depth.
#pragma once

#include "base/view.h"

namespace nibble {
class Device;
}

namespace nibble::ops {

// For each row, over n sources (the snapshots in order, the running sum last):
//   score_i = sum_d(V_i[d] * rsqrt(mean(V_i^2) + eps) * norm[d] * proj[d]),  p = softmax(score),  out = sum_i p_i V_i
// The sum takes the raw sources, not the normalised ones; there is no temperature.
//
// Shapes   1 to 64 sources of T rows (0 allowed) and D columns, one after the other: source i is rows i*T .. i*T+T-1.
// Rounds   fp32 inside, one landing. norm * proj is an fp32 product, never rounded to bf16.
// Order    Sums over D in 16 lanes, then a fixed tree; the softmax sum and the mix in ascending source.
// Owns     Nothing; no scratch.
// Refuses  ContractError before any write: rows of sources not a multiple of T, no source or more than 64, shapes or
//          dtypes that differ, out overlapping the sources.
// Source   docs/model.md 7.1.
struct AttnResMix {
  static constexpr int64_t kMaxSources = 64;  // kernels keep a row's scores on the stack; K3 has 9
  ConstRows sources;                          // [n * T, D]
  View1<const float> norm;                    // [D]
  View1<const float> proj;                    // [D]
  float eps = 0.0f;
  Rows out;  // [T, D], dtype of sources
};

void attn_res_mix(Device& device, const AttnResMix& args);

namespace reference {
void attn_res_mix(const AttnResMix& args);
}

}  // namespace nibble::ops
