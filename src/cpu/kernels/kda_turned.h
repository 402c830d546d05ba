// S0 of one head, turned for whole segments: blocks of sixteen values, each [K][16], so that lanes run over values.
// Sums over K then need no lane of another, and each number is still made by the same operations in the same order:
// sixteen partial sums, one for every key channel modulo sixteen, and the tree of vec.h over them.
#pragma once

#include "cpu/kernels/kda_segment.h"

namespace nibble::cpu::NIBBLE_ISA {

struct TurnedState {
  float* data;  // [V / 16, K, 16]
  int64_t key_dim, value_dim;

  // Whether a state of this form can be turned.
  NIBBLE_INLINE static bool fits(int64_t key_dim, int64_t value_dim) {
    return key_dim % kLanes == 0 && value_dim % kLanes == 0;
  }
  NIBBLE_INLINE float* block(int64_t v) const { return data + v * key_dim; }

  NIBBLE_INLINE void take(const float* state) const {  // [V, K]
    for (int64_t v = 0; v < value_dim; v += kLanes) {
      float* const to = block(v);
      for (int64_t k = 0; k < key_dim; ++k) {
        for (int64_t i = 0; i < kLanes; ++i) to[k * kLanes + i] = state[(v + i) * key_dim + k];
      }
    }
  }
  NIBBLE_INLINE void give(float* state) const {
    for (int64_t v = 0; v < value_dim; ++v) {
      const float* const from = block(v / kLanes * kLanes) + v % kLanes;
      for (int64_t k = 0; k < key_dim; ++k) state[v * key_dim + k] = from[k * kLanes];
    }
  }

  // out[t * out_stride + i] = row v + i of S0 times b_t = b + t * b_stride, for kBlocks * 16 rows and kOthers b's: as
  // many sums as hide the latency of an addition.
  template <int kBlocks, int kOthers>
  NIBBLE_INLINE void products(int64_t v, const float* b, int64_t b_stride, float* out, int64_t out_stride) const {
    const float* const s = block(v);
    const int64_t size = key_dim * kLanes;          // of a block
    float lanes[kOthers][kBlocks][kLanes][kLanes];  // partial sum, then value
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      F16 sum[kOthers][kBlocks];
#pragma GCC unroll 4
      for (int t = 0; t < kOthers; ++t) {
#pragma GCC unroll 2
        for (int n = 0; n < kBlocks; ++n) sum[t][n] = zero();
      }
      for (int64_t k = lane; k < key_dim; k += kLanes) {
        F16 row[kBlocks];
#pragma GCC unroll 2
        for (int n = 0; n < kBlocks; ++n) row[n] = load(s + n * size + k * kLanes);
#pragma GCC unroll 4
        for (int t = 0; t < kOthers; ++t) {
          const F16 factor = broadcast(b[t * b_stride + k]);
#pragma GCC unroll 2
          for (int n = 0; n < kBlocks; ++n) sum[t][n] = fma(row[n], factor, sum[t][n]);
        }
      }
#pragma GCC unroll 4
      for (int t = 0; t < kOthers; ++t) {
#pragma GCC unroll 2
        for (int n = 0; n < kBlocks; ++n) store(lanes[t][n][lane], sum[t][n]);
      }
    }
    for (int t = 0; t < kOthers; ++t) {
      for (int n = 0; n < kBlocks; ++n) store(out + t * out_stride + n * kLanes, tree(lanes[t][n]));
    }
  }

  // What fold_factors made, folded into kBlocks * 16 rows of S0 from v on.
  template <int kBlocks>
  NIBBLE_INLINE void fold(int64_t v, bool fresh, const Head& head, const Scratch& s) const {
    constexpr int kKeys = 4;
    for (int64_t k = 0; k < key_dim; k += kKeys) {
      fold_tile<kKeys, kBlocks>(
          {block(v) + k * kLanes, kLanes, key_dim * kLanes, kLanes}, fresh, s.folded + k, s.keys, head.value(0) + v,
          head.width, [&](int i, int) __attribute__((always_inline)) { return broadcast(s.factor[k + i]); });
    }
  }

 private:
  // The sum over sixteen vectors of what vec.h adds up within one: those 8 apart, then 4, 2 and 1.
  NIBBLE_INLINE static F16 tree(const float (&lanes)[kLanes][kLanes]) {
    const auto eight = [&](int64_t i) __attribute__((always_inline)) { return load(lanes[i]) + load(lanes[i + 8]); };
    const auto four = [&](int64_t i) __attribute__((always_inline)) { return eight(i) + eight(i + 4); };
    const auto two = [&](int64_t i) __attribute__((always_inline)) { return four(i) + four(i + 2); };
    return two(0) + two(1);
  }
};

}  // namespace nibble::cpu::NIBBLE_ISA
