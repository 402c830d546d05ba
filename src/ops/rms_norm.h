// Root-mean-square normalisation.
#pragma once

#include "base/view.h"

namespace nibble {
class Device;
}

namespace nibble::ops {

// y = x * rsqrt(mean(x^2) + eps) * weight, row by row.
//
// Shapes   T rows (0 allowed), n columns.
// Rounds   fp32 inside. Into bf16: the normalised value lands before it meets the weight, then the product lands.
// Order    The square sum runs in 16 lanes over n, then a fixed tree. A row does not depend on T.
// Owns     Nothing; no scratch.
// Refuses  ContractError before any write: shapes or dtypes that differ, out overlapping x.
// Source   docs/model.md 4 (REF rounding).
struct RmsNorm {
  ConstRows x;                // [T, n]
  View1<const float> weight;  // [n]
  float eps = 0.0f;
  Rows out;  // [T, n], dtype of x
};

void rms_norm(Device& device, const RmsNorm& args);

namespace reference {
void rms_norm(const RmsNorm& args);
}

}  // namespace nibble::ops
