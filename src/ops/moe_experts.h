// The routed experts: each row through its own few, summed.
#pragma once

#include <cstddef>

#include "base/view.h"
#include "ops/weight.h"

namespace nibble {
class Device;
}

namespace nibble::ops {

// y[t] = sum_i weights[t, i] * w2_e situ(w1_e x[t], w3_e x[t]),  e = ids[t, i]
//
// Shapes   x, out [T, L] (T = 0 allowed); ids, weights [T, k]; w1 (gate), w3 (up) [E][F, L]; w2 [E][L, F]. Any number
//          of rows an expert, none included.
// Rounds   As linear: gate, up, situ and w2's output each land in x's dtype; the routing weight multiplies after w2, in
//          fp32; the sum over experts is fp32 and lands once.
// Order    Dots as in linear. Experts ascend within a row (ids do), in one slice: a row does not depend on T.
// Owns     scratch.
// Refuses  ContractError before any write: shapes that differ, an empty bank, small scratch, out overlapping x.
//          ids must be in 0..E-1, which moe_route guarantees.
// Source   docs/model.md 8.2, steps 6-7.
struct MoeExperts {
  ConstRows x;                 // [T, L]
  View2<const int32_t> ids;    // [T, k]
  View2<const float> weights;  // [T, k]
  ExpertBank w1, w3, w2;       // gate, up, down
  float beta = 0.0f, linear_beta = 0.0f;
  View1<std::byte> scratch;  // moe_experts_scratch_bytes
  Rows out;                  // [T, L], dtype of x
};

size_t moe_experts_scratch_bytes(const Device& device, int64_t rows, int64_t top_k, int64_t experts, int64_t latent_dim,
                                 int64_t expert_dim);

void moe_experts(Device& device, const MoeExperts& args);

namespace reference {
void moe_experts(const MoeExperts& args);
}

}  // namespace nibble::ops
