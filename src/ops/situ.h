// The SiTU activation of K3's MLPs.
#pragma once

#include "base/view.h"

namespace nibble {
class Device;
}

namespace nibble::ops {

// out = beta tanh(gate / beta) sigmoid(gate) * linear_beta tanh(up / linear_beta). The sigmoid takes the uncapped gate.
//
// Shapes   [T, n]; T = 0 allowed.
// Rounds   fp32 from the landed gate and up, one landing.
// Order    None.
// Owns     Nothing; out may be the very view of gate or of up.
// Refuses  ContractError before any write: shapes or dtypes that differ, a beta that is not positive, partial overlap.
// Source   docs/model.md 8.1.
struct Situ {
  ConstRows gate, up;  // [T, n]
  float beta = 0.0f, linear_beta = 0.0f;
  Rows out;  // [T, n]
};

void situ(Device& device, const Situ& args);

namespace reference {
void situ(const Situ& args);
}

}  // namespace nibble::ops
