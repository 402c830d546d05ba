// Dot products of a block of weight rows with a block of activation rows: what linear and moe_experts are made of.
//
// Each dot runs in the canonical order of vec.h, whatever the size of the block: lane k mod 16 takes its columns in
// ascending order, then `sum`. So a row's result does not depend on which rows come with it.
#pragma once

#include "base/bf16.h"
#include "cpu/kernels/kernel.h"
#include "ops/weight.h"

namespace nibble::cpu::NIBBLE_ISA {

// Weight rows and activation rows a block. 64 activations of 4,096 columns of bf16 are a 512 KiB second-level cache.
// Matrix tiles are fast enough that putting activations into them has to be shared by more rows, and reading weights by
// more activations.
#ifdef NIBBLE_TILES
constexpr int64_t kBlockRows = 512, kBlockTokens = 128;
constexpr int64_t kPreparedFloats = 16 * 7168 / 2;  // of pairs: sixteen activations of K3's hidden size
#else
constexpr int64_t kBlockRows = 64, kBlockTokens = 64;
constexpr int64_t kPreparedFloats = 6 * 7168;
#endif

// Up to so many activations meet longer blocks, of as many values: what streams from memory is to be in long runs.
#ifdef NIBBLE_TILES
constexpr int64_t kFewTokens = 0;
#else
constexpr int64_t kFewTokens = 6;
#endif
NIBBLE_INLINE int64_t block_rows(int64_t tokens) {
  return tokens > kFewTokens ? kBlockRows : kBlockTokens * kBlockRows / tokens / kBlockRows * kBlockRows;
}

// Values [token][weight row], for so many tokens.
struct Block {
  NIBBLE_INLINE explicit Block(int64_t tokens) : stride(block_rows(tokens)) {}
  NIBBLE_INLINE float* operator[](int64_t token) { return value + token * stride; }
  NIBBLE_INLINE const float* operator[](int64_t token) const { return value + token * stride; }

  const int64_t stride;
  alignas(64) float value[kBlockTokens * kBlockRows];
};

// Activation rows, ready for dots with weights of one format. On the stack: 170 to 230 KiB.
template <class X>
struct Activations {
  int64_t tokens = 0;  // 1 .. kBlockTokens
  const X* row[kBlockTokens];
  bool is_prepared = false;  // whether `prepared` has them too, in the order that the format is read in
  alignas(64) float prepared[kPreparedFloats];
};

// What is done with weights of one format, chosen once a call.
template <class X>
struct Dots {
  // Says whether the rows, once they are set, are `prepared`, and does so where that pays; `row` may then be there.
  void (*prepare)(Activations<X>& x, int64_t cols);
  // out[t][i] = row n + i of w times row t of x, for i < count (1 .. out.stride). Values of i past count may be written
  // up to the next multiple of sixteen.
  void (*run)(const ops::WeightMatrix& w, int64_t n, int64_t count, const Activations<X>& x, Block& out);
};
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

// f(row, count) for the rows of units [begin, end) of n rows, a block for `tokens` at a time.
template <class F>
NIBBLE_INLINE void for_row_blocks(int64_t begin, int64_t end, int64_t n, int64_t tokens, const F& f) {
  const int64_t last = end * kLanes < n ? end * kLanes : n, step = block_rows(tokens);
  for (int64_t row = begin * kLanes; row < last; row += step) f(row, last - row < step ? last - row : step);
}

}  // namespace nibble::cpu::NIBBLE_ISA
