// y = w * land(x * rsqrt(mean(x^2) + eps)), a block a row.
#include "cuda/kernels/kernel.cuh"
#include "cuda/kernels/kernels.h"
#include "ops/rms_norm.h"

namespace nibble::cuda {
namespace {

constexpr int kThreads = 256, kStaged = 4096;  // columns in shared memory at once: a multiple of the lanes

// The canonical sum of squares: all threads fetch, one half-warp adds.
template <class T>
__device__ float square_sum(const T* x, int64_t n) {
  __shared__ float staged[kStaged];
  __shared__ float total;
  float acc = 0.0f;
  for (int64_t base = 0; base < n; base += kStaged) {
    const int count = static_cast<int>(n - base < kStaged ? n - base : kStaged);
    for (int i = threadIdx.x; i < count; i += kThreads) staged[i] = widen(x[base + i]);
    __syncthreads();
    if (threadIdx.x < kLanes) {
#pragma unroll 8
      for (int i = threadIdx.x; i < count; i += kLanes) acc = fma(staged[i], staged[i], acc);
    }
    __syncthreads();
  }
  if (threadIdx.x < kLanes) {
    const float sum = sum_lanes(acc);
    if (threadIdx.x == 0) total = sum;
  }
  __syncthreads();
  return total;
}

template <class T>
__global__ void rms_norm_kernel(ops::RmsNorm a) {
  const int64_t n = a.x.cols, t = blockIdx.x;
  const T* x = row<T>(a.x, t);
  T* out = row<T>(a.out, t);
  const float scale = 1.0f / sqrtf(square_sum(x, n) / static_cast<float>(n) + a.eps);
  for (int64_t k = threadIdx.x; k < n; k += kThreads) {
    out[k] = land<T>(landed<T>(widen(x[k]) * scale) * a.weight.data[k]);
  }
}

}  // namespace

void rms_norm(Device& device, const ops::RmsNorm& a) {
  const LaunchShape shape = {.x = a.x.rows, .threads = kThreads};
  with_dtype(a.x.dtype, [&]<class T>() { launch(device, "rms_norm", rms_norm_kernel<T>, shape, a); });
}

}  // namespace nibble::cuda
