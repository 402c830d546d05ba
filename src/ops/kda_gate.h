// The forget gate and the write strength of KDA.
#pragma once

#include "base/view.h"

namespace nibble {
class Device;
}

namespace nibble::ops {

// decay[t, h, d] = lower_bound * sigmoid(exp(a_log[h]) * (gate[t, h, d] + dt_bias[h, d])), a log decay in
// (lower_bound, 0), ends included once rounded; beta_out[t, h] = sigmoid(beta[t, h]). There is no softplus, and
// lower_bound is no clamp.
//
// Shapes   T rows (0 allowed), A heads of K: gate, decay [T, A * K]; beta, beta_out [T, A]; a_log [A]; dt_bias [A * K].
// Rounds   fp32 throughout, never landed.
// Order    None.
// Owns     Nothing; no scratch.
// Refuses  ContractError before any write: shapes that differ, lower_bound outside [-5, 0): beyond -5 the
//          factored form of kda_rows overflows.
// Source   docs/model.md 5.4, 5.5.
struct KdaGate {
  ConstRows gate;              // [T, A * K] f_b_proj's output
  ConstRows beta;              // [T, A] b_proj's output
  View1<const float> a_log;    // [A]
  View1<const float> dt_bias;  // [A * K]
  float lower_bound = 0.0f;
  View2<float> decay;     // [T, A * K] out
  View2<float> beta_out;  // [T, A] out
};

void kda_gate(Device& device, const KdaGate& args);

namespace reference {
void kda_gate(const KdaGate& args);
}

}  // namespace nibble::ops
