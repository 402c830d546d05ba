// Dot products of a weight row with up to eight activation rows, in the canonical order: what linear and moe_experts
// are made of where rows are few.
//
// A pair of threads has a weight row: the one the lanes 0..7, the other 8..15. So each reads eight neighbouring columns
// at once, and one weight read serves all the activations.
#pragma once

#include "cuda/kernels/weights.cuh"

namespace nibble::cuda {

constexpr int kFewTokens = 8, kPair = 2, kFewThreads = 64;
constexpr int kFewRows = kFewThreads / kPair;  // weight rows a block

// The weight row of a pair within its block.
__device__ __forceinline__ int pair() { return static_cast<int>(threadIdx.x) / kPair; }

// The canonical tree over the lanes of a pair; both threads get the sum.
__device__ __forceinline__ float sum_pair(const float (&acc)[kColumns]) {
  float v[kColumns];
#pragma unroll
  for (int i = 0; i < kColumns; ++i) v[i] = acc[i] + __shfl_xor_sync(0xFFFFFFFFu, acc[i], 1);
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

// out[t] = w . x[t]. All threads of a warp call it. kUnroll: loads under way, as far as registers go.
template <int kTokens, bool kVector, class Row, class X>
__device__ __forceinline__ void dots(const Row& w, int64_t cols, const X* const (&x)[kTokens], float (&out)[kTokens]) {
  constexpr int kUnroll = kTokens == 1 ? 8 : 2;
  float acc[kTokens][kColumns] = {};
#pragma unroll kUnroll
  for (int64_t k = (threadIdx.x % kPair) * kColumns; k < cols; k += kLanes) {
    float weight[kColumns];
    w.template load<kVector>(k, weight);
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      float value[kColumns];
      load_columns<kVector>(x[t] + k, cols - k, value);
#pragma unroll
      for (int i = 0; i < kColumns; ++i) acc[t][i] = fma(weight[i], value[i], acc[t][i]);
    }
  }
#pragma unroll
  for (int t = 0; t < kTokens; ++t) out[t] = sum_pair(acc[t]);
}

}  // namespace nibble::cuda
