// The output gate of MLA.
#pragma once

#include "base/view.h"

namespace nibble {
class Device;
}

namespace nibble::ops {

// out = x * sigmoid(gate).
//
// Shapes   [T, n]; T = 0 allowed.
// Rounds   Into bf16: the sigmoid lands, then the product lands. Into fp32: neither.
// Order    None.
// Owns     Nothing; out may be the very view of x.
// Refuses  ContractError before any write: shapes or dtypes that differ, out overlapping gate.
// Source   docs/model.md 6.1.
struct SigmoidMul {
  ConstRows x, gate;  // [T, n]
  Rows out;           // [T, n]
};

void sigmoid_mul(Device& device, const SigmoidMul& args);

namespace reference {
void sigmoid_mul(const SigmoidMul& args);
}

}  // namespace nibble::ops
