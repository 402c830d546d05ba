// A softmax over depth, a block a row: half-warps score the normalised sources, threads mix columns of the raw ones.
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/math.cuh"
#include "ops/attn_res_mix.h"

namespace nibble::cuda {
namespace {

constexpr int kThreads = 256;

// sum_d v[d] * norm[d] * proj[d] over the root mean square of v, by a half-warp.
template <class T>
__device__ float score(const T* v, const ops::AttnResMix& a) {
  const int64_t n = a.out.cols;
  float squares = 0.0f, sums = 0.0f;
#pragma unroll 16
  for (int64_t k = lane(); k < n; k += kLanes) {
    const float x = widen(v[k]);
    squares = fma(x, x, squares);
    sums = fma(x, a.norm.data[k] * a.proj.data[k], sums);
  }
  return sum_lanes(sums) / sqrtf(sum_lanes(squares) / static_cast<float>(n) + a.eps);
}

// Scores to probabilities, in place, by one thread: there are few.
__device__ void softmax(float* p, int n) {
  float largest = p[0], total = 0.0f;
  for (int i = 1; i < n; ++i) largest = p[i] > largest ? p[i] : largest;
  for (int i = 0; i < n; ++i) total += p[i] = exp(p[i] - largest);
  for (int i = 0; i < n; ++i) p[i] = p[i] / total;
}

template <class T>
__global__ void attn_res_mix_kernel(ops::AttnResMix a) {
  __shared__ float p[ops::AttnResMix::kMaxSources];
  const int64_t rows = a.out.rows, t = blockIdx.x;
  const int n = static_cast<int>(a.sources.rows / rows);
  for (int i = half_warp(); i < n; i += half_warps()) {
    const float s = score(row<T>(a.sources, i * rows + t), a);
    if (lane() == 0) p[i] = s;
  }
  __syncthreads();
  if (threadIdx.x == 0) softmax(p, n);
  __syncthreads();
  for (int64_t k = threadIdx.x; k < a.out.cols; k += kThreads) {
    float mixed = 0.0f;
    for (int i = 0; i < n; ++i) mixed = fma(p[i], widen(row<T>(a.sources, i * rows + t)[k]), mixed);
    row<T>(a.out, t)[k] = land<T>(mixed);
  }
}

}  // namespace

void attn_res_mix(Device& device, const ops::AttnResMix& a) {
  const LaunchShape shape = {.x = a.out.rows, .threads = kThreads};
  with_dtype(a.out.dtype, [&]<class T>() { launch(device, "attn_res_mix", attn_res_mix_kernel<T>, shape, a); });
}

}  // namespace nibble::cuda
