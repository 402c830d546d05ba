// Dot products of a block of weight rows with a block of activation rows: what linear and moe_experts are made of.
//
// Each dot runs in the canonical order of vec.h, whatever the size of the block: lane k mod 16 takes its columns in
// ascending order, then `sum`. So a row's result does not depend on which rows come with it.
#pragma once

#include <cstddef>

#include "base/bf16.h"
#include "cpu/kernels/kernel.h"
#include "ops/weight.h"

namespace nibble::cpu::NIBBLE_ISA {

// Weight rows and activation rows a block. Matrix tiles are fast enough that reading weights has to be shared by more
// activations, and by more rows what each block does once.
#if defined(NIBBLE_TILES)
constexpr int64_t kBlockRows = 512, kBlockTokens = 128;
#elif defined(NIBBLE_BF16_PAIRS)
constexpr int64_t kBlockRows = 64, kBlockTokens = 128;
#else
constexpr int64_t kBlockRows = 64, kBlockTokens = 64;
#endif

// Up to so many activations meet longer blocks, of kLongValues in all: what streams from memory is to be in long runs.
#ifdef NIBBLE_TILES
constexpr int64_t kFewTokens = 0;
#else
constexpr int64_t kFewTokens = 6;
#endif
constexpr int64_t kLongValues = 4096;
NIBBLE_INLINE int64_t block_rows(int64_t tokens) {
  return tokens > kFewTokens ? kBlockRows : kLongValues / tokens / kBlockRows * kBlockRows;
}

// Values [token][weight row], for so many tokens.
struct Block {
  NIBBLE_INLINE explicit Block(int64_t tokens) : stride(block_rows(tokens)) {}
  NIBBLE_INLINE float* operator[](int64_t token) { return value + token * stride; }
  NIBBLE_INLINE const float* operator[](int64_t token) const { return value + token * stride; }

  const int64_t stride;
  alignas(64) float value[kBlockTokens * kBlockRows];
};

// Activation rows, for dots with weights of one format.
template <class X>
struct Activations {
  NIBBLE_INLINE explicit Activations(std::byte* workspace) : prepared(workspace) {}

  int64_t tokens = 0;  // 1 .. kBlockTokens
  const X* row[kBlockTokens];
  std::byte* const prepared;  // prepared_bytes(tokens, columns), for the rows in the order that the format is read in
};
// A multiple of 64.
NIBBLE_INLINE size_t prepared_bytes(int64_t tokens, int64_t cols) {
  constexpr int64_t kMost = 256;  // columns that rows are padded to a multiple of; and a cache line more (dots.cc)
  const int64_t rows = (tokens < kBlockTokens ? tokens + kLanes - 1 : kBlockTokens) / kLanes * kLanes;
  return static_cast<size_t>(rows * ((cols + kMost - 1) / kMost * kMost + kLanes)) * sizeof(float);
}

// What is done with weights of one format, chosen once a call.
template <class X>
struct Dots {
  // Of the rows, once they are set; before any run.
  void (*prepare)(const Activations<X>& x, int64_t cols);
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
