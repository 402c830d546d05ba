// Per-head RMS normalisation with a sigmoid gate.
#pragma once

#include "base/view.h"

namespace nibble {
class Device;
}

namespace nibble::ops {

// Per head: y = x * rsqrt(mean(x^2) + eps) * weight * sigmoid(gate).
//
// Shapes   T rows (0 allowed), A heads of V: x, gate, out [T, A * V]; weight [V], shared by all heads.
// Rounds   fp32 inside, one landing (not two as in rms_norm).
// Order    The square sum runs in 16 lanes over V, then a fixed tree.
// Owns     Nothing; no scratch.
// Refuses  ContractError before any write: shapes or dtypes that differ, columns not a multiple of V, out overlapping
//          gate; out may be the very view of x.
// Source   docs/model.md 5.8.
struct GatedRmsNorm {
  ConstRows x, gate;          // [T, A * V]
  View1<const float> weight;  // [V]
  float eps = 0.0f;
  Rows out;  // [T, A * V]
};

void gated_rms_norm(Device& device, const GatedRmsNorm& args);

namespace reference {
void gated_rms_norm(const GatedRmsNorm& args);
}

}  // namespace nibble::ops
