// Dot products of a block of weight rows with a block of activation rows: what linear and moe_experts are made of.
//
// Each dot runs in the canonical order of vec.h, whatever the size of the block: lane k mod 16 takes its columns in
// ascending order, then `sum`. So a row's result does not depend on which rows come with it.
#pragma once

#include "base/bf16.h"
#include "cpu/kernels/vec.h"
#include "ops/weight.h"

namespace nibble::cpu::NIBBLE_ISA {

constexpr int64_t kBlockRows = kLanes;  // weight rows a block: one vector of outputs
constexpr int64_t kBlockTokens = 48;    // activation rows a block: at K = 4096 in bf16, 384 KiB of a 512 KiB L2

NIBBLE_INLINE int64_t blocks_of(int64_t rows) { return (rows + kBlockRows - 1) / kBlockRows; }

// Values [token][weight row].
using Block = float[kBlockTokens][kBlockRows];

// out[t][i] = row n + i of w times x[t], for i < count (1 .. 16) and t < tokens (1 .. 48). Values of i past count are
// copies.
template <class X>
using Dots = void (*)(const ops::WeightMatrix& w, int64_t n, int64_t count, const X* const* x, int64_t tokens,
                      Block& out);

// The function for weights of one format, chosen once a call.
Dots<float> dots_f32(fp4::WeightFormat format);
Dots<Bf16> dots_bf16(fp4::WeightFormat format);
template <class X>
NIBBLE_INLINE Dots<X> dots_of(fp4::WeightFormat format) {
  if constexpr (sizeof(X) == 2)
    return dots_bf16(format);
  else
    return dots_f32(format);
}

}  // namespace nibble::cpu::NIBBLE_ISA
