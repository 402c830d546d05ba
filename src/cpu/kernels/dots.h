// Dot products of a block of weight rows with a block of activation rows: what linear and moe_experts are made of.
//
// Each dot runs in the canonical order of vec.h, whatever the size of the block: lane k mod 16 takes its columns in
// ascending order, then `sum`. So a row's result does not depend on which rows come with it.
#pragma once

#include "base/bf16.h"
#include "cpu/kernels/kernel.h"
#include "ops/weight.h"

namespace nibble::cpu::NIBBLE_ISA {

constexpr int64_t kBlockRows = 64;    // weight rows a block: for one activation four streams of sixteen rows
constexpr int64_t kBlockTokens = 64;  // activation rows a block: at K = 4096 in bf16, a 512 KiB L2
// Up to so many activations are put into the order of nibbles, if together they have no more columns than six of
// K3's hidden size.
constexpr int64_t kNibbleTokens = kParts == 1 ? 6 : 3;
constexpr int64_t kNibbleColumns = 6 * 7168;

// Values [token][weight row].
using Block = float[kBlockTokens][kBlockRows];

// Activation rows, ready for dots with weights of one format. On the stack: 170 KiB.
template <class X>
struct Activations {
  int64_t tokens = 0;  // 1 .. kBlockTokens
  const X* row[kBlockTokens];
  bool has_nibbles = false;                // whether the rows are here too, in Order::kNibble:
  const float* nibble_row[kNibbleTokens];  // in `nibbles`, a tail padded with zeros
  alignas(64) float nibbles[kNibbleColumns];
};
// Fills `nibble` where that pays, once the rows are set.
template <class X>
NIBBLE_INLINE void prepare(Activations<X>& x, fp4::WeightFormat format, int64_t cols) {
  if constexpr (kNibbleOrder) {
    const bool nibbles = format == fp4::WeightFormat::kMxfp4 || format == fp4::WeightFormat::kNvfp4 ||
                         format == fp4::WeightFormat::kMxfp8;
    const int64_t whole = (cols + kLanes - 1) / kLanes * kLanes;
    x.has_nibbles = nibbles && x.tokens <= kNibbleTokens && x.tokens * whole <= kNibbleColumns;
    for (int64_t t = 0; x.has_nibbles && t < x.tokens; ++t) {
      float* const row = x.nibbles + t * whole;
      x.nibble_row[t] = row;
      for_lanes(cols, [&](int64_t k, int64_t count) {
        store(row + k, from_natural<Order::kNibble>(load_n(x.row[t] + k, count)));
      });
    }
  }
}

// out[t][i] = row n + i of w times row t of x, for i < count (1 .. kBlockRows). Values of i past count may be written
// up to the next multiple of sixteen.
template <class X>
using Dots = void (*)(const ops::WeightMatrix& w, int64_t n, int64_t count, const Activations<X>& x, Block& out);

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

// Threads share out weight rows in units of sixteen: one vector of outputs.
NIBBLE_INLINE int64_t units_of(int64_t rows) { return (rows + kLanes - 1) / kLanes; }

// f(row, count) for the rows of units [begin, end) of n rows, a block at a time.
template <class F>
NIBBLE_INLINE void for_row_blocks(int64_t begin, int64_t end, int64_t n, const F& f) {
  const int64_t last = end * kLanes < n ? end * kLanes : n;
  for (int64_t row = begin * kLanes; row < last; row += kBlockRows) {
    f(row, last - row < kBlockRows ? last - row : kBlockRows);
  }
}

}  // namespace nibble::cpu::NIBBLE_ISA
