// What every kernel file includes: launches, elements of views, landings, and the canonical sum of sixteen lanes.
//
// Sums run in the CPU's order: lane k mod 16 takes its elements ascending, then lanes 8, 4, 2 and 1 apart. A half-warp
// holds the lanes. With fused multiply-add named where the CPU's AVX sets use it, results are theirs bit for bit.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "base/bf16.h"
#include "base/view.h"
#include "cuda/cuda_device.h"
#include "cuda/launch.h"

namespace nibble::cuda {

constexpr int kLanes = 16;

// Enqueues a kernel, after checking that the device can take its shape.
template <class... Params, class... Args>
void launch(Device& device, const char* op, void (*kernel)(Params...), const LaunchShape& shape, const Args&... args) {
  auto& self = static_cast<CudaDevice&>(device);
  check_launch(op, shape, self.limits());
  if (shape.x == 0 || shape.y == 0) return;
  self.make_current();
  constexpr int64_t kWithoutAsking = 48 << 10;
  if (shape.shared > kWithoutAsking) {
    self.note(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shape.shared)),
              op);
  }
  const dim3 grid(static_cast<unsigned>(shape.x), static_cast<unsigned>(shape.y));
  kernel<<<grid, static_cast<unsigned>(shape.threads), static_cast<size_t>(shape.shared), self.stream()>>>(args...);
  self.note(cudaGetLastError(), op);
}

// Calls body<float>() or body<Bf16>(): where the dtype of activations becomes a type.
template <class Body>
void with_dtype(DType dtype, const Body& body) {
  if (dtype == DType::kBf16)
    body.template operator()<Bf16>();
  else
    body.template operator()<float>();
}

template <class T>
__device__ __forceinline__ const T* row(const ConstRows& v, int64_t i) {
  return static_cast<const T*>(v.data) + i * v.stride;
}
template <class T>
__device__ __forceinline__ T* row(const Rows& v, int64_t i) {
  return static_cast<T*>(v.data) + i * v.stride;
}
template <class T>
__device__ __forceinline__ T* row(const View2<T>& v, int64_t i) {
  return v.data + i * v.stride;
}

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(Bf16 x) { return to_float(x); }
template <class T>
__device__ __forceinline__ T land(float x) {
  if constexpr (std::is_same_v<T, Bf16>)
    return to_bf16(x);
  else
    return x;
}
// x rounded to T and back: a landing that stays in registers.
template <class T>
__device__ __forceinline__ float landed(float x) {
  return widen(land<T>(x));
}

__device__ __forceinline__ float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }

// The half-warp that this thread is in, within the block, and its lane there.
__device__ __forceinline__ int half_warp() { return static_cast<int>(threadIdx.x) / kLanes; }
__device__ __forceinline__ int half_warps() { return static_cast<int>(blockDim.x) / kLanes; }
__device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kLanes; }
__device__ __forceinline__ unsigned half_mask() { return 0xFFFFu << (threadIdx.x & 16u); }

// The canonical tree; every lane gets the sum. Called by whole half-warps.
__device__ __forceinline__ float sum_lanes(float v) {
  const unsigned mask = half_mask();
  for (int apart = kLanes / 2; apart > 0; apart /= 2) v = v + __shfl_xor_sync(mask, v, apart);
  return v;
}

// The canonical dot product of n elements, by a half-warp.
template <class A, class B>
__device__ __forceinline__ float dot(const A* a, const B* b, int64_t n) {
  float acc = 0.0f;
#pragma unroll 4
  for (int64_t k = lane(); k < n; k += kLanes) acc = fma(widen(a[k]), widen(b[k]), acc);
  return sum_lanes(acc);
}

// The element that a thread of an elementwise() launch has; false past the row's end.
struct Element {
  int64_t row, col;
};
__device__ __forceinline__ bool element(int64_t cols, Element& e) {
  e = {static_cast<int64_t>(blockIdx.x), static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x};
  return e.col < cols;
}

}  // namespace nibble::cuda
