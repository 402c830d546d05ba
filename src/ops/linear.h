// Products of one activation with up to eight weight matrices.
#pragma once

#include "base/view.h"
#include "ops/weight.h"

namespace nibble {
class Device;
}

namespace nibble::ops {

// For each part p: out_p = x W_p^T. Parts share x so that one pass reads it.
//
// Shapes   x [T, K] (T = 0 allowed), W_p [N_p, K], out_p [T, N_p]. K divides by the format's group (32, 16); for
//          fp8-block and plain formats any K. MXFP8 as our own quantiser makes it: no
//          code is NaN, no scale above 2^7.
// Rounds   Weights are widened to fp32: exactly for f32, bf16, MXFP4 and MXFP8; fp8-block as code * scale, rounded
//          once; NVFP4 either exactly as code * scale, tensor_scale multiplying the finished sum, or as
//          code * (scale * tensor_scale), each product rounded once. Products with x and their sums are fp32 (fused
//          where the device has it), one landing into out's dtype. fp32 out of bf16 x is allowed, and the reverse.
//          A device that multiplies pairs of bf16 does so for bf16 x with bf16, MXFP4 and NVFP4 weights: products are
//          as exact, but subnormal weights, x and sums count as zero.
// Order    K runs in 16 lanes (pairs of columns in each, where pairs are multiplied), then a fixed tree: the same for 1
//          row and for 512, so a row does not depend on T.
// Owns     Nothing; no scratch.
// Refuses  ContractError before any write: no parts or more than kMaxParts, shapes that differ, K not a multiple of
//          the group, a tensor scale other than 1 outside NVFP4, out sharing elements with x or another out (columns of
//          one buffer are apart).
// Source   docs/model.md 0 (linear layers), 3.1-3.4.
struct Linear {
  static constexpr int kMaxParts = 8;
  struct Part {
    WeightMatrix weight;  // [N, K]
    Rows out;             // [T, N]
  };
  ConstRows x;  // [T, K]
  Part parts[kMaxParts];
  int part_count = 0;
};

void linear(Device& device, const Linear& args);

namespace reference {
void linear(const Linear& args);
}

}  // namespace nibble::ops
