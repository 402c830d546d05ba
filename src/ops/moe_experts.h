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
//          of rows an expert, none included; w2 may have another format than w1 and w3.
// Rounds   As linear: gate, up, situ and w2's output each land in x's dtype; the routing weight multiplies after w2, in
//          fp32; the sum over experts is fp32 and lands once.
// Order    Dots as in linear. Experts ascend within a row (ids do), in one slice: a row does not depend on T.
// Owns     scratch.
// Refuses  ContractError before any write: shapes that differ, w1 and w3 of different formats, columns not a multiple
// of
//          the format's group, an empty bank, a beta that is not positive, small scratch, out overlapping an input.
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

// Where things lie in the scratch, in bytes. h is as wide as fp32, whatever the dtype of x.
struct MoeExpertsScratch {
  int64_t end = 0;     // int64 [E] where each expert's rows end
  int64_t order = 0;   // int64 [T * k] routed rows by expert
  int64_t sums = 0;    // fp32 [T, L] sums over experts
  int64_t hidden = 0;  // dtype of x [T * k, F] outputs of situ, in `order`
  int64_t bytes = 0;   // of all
};
[[gnu::always_inline]] constexpr MoeExpertsScratch moe_experts_scratch(int64_t rows, int64_t top_k, int64_t experts,
                                                                       int64_t latent_dim, int64_t expert_dim) {
  const auto whole_lines = [](int64_t bytes) __attribute__((always_inline)) { return (bytes + 63) / 64 * 64; };
  MoeExpertsScratch at;
  at.order = at.end + whole_lines(experts * 8);
  at.sums = at.order + whole_lines(rows * top_k * 8);
  at.hidden = at.sums + whole_lines(rows * latent_dim * 4);
  at.bytes = at.hidden + whole_lines(rows * top_k * expert_dim * 4);
  return at;
}
size_t moe_experts_scratch_bytes(const Device& device, int64_t rows, int64_t top_k, int64_t experts, int64_t latent_dim,
                                 int64_t expert_dim);

void moe_experts(Device& device, const MoeExperts& args);

namespace reference {
void moe_experts(const MoeExperts& args);
}

}  // namespace nibble::ops
