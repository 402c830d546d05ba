// What every kernel file includes: vectors, math, and how to reach the pool and a view's elements.
#pragma once

#include "base/view.h"
#include "cpu/cpu_device.h"
#include "cpu/kernels/math.h"
#include "cpu/kernels/vec.h"

namespace nibble::cpu::NIBBLE_ISA {

NIBBLE_INLINE ThreadPool& pool(Device& device) { return static_cast<CpuDevice&>(device).pool(); }

using Workspaces = CpuDevice::Workspaces;
NIBBLE_INLINE Workspaces workspaces_of(Device& device, size_t bytes) {
  return static_cast<CpuDevice&>(device).workspaces(bytes);
}

// body(begin, end, worker) over [0, count), on all threads unless the whole is `work` multiply-adds that one has done
// before the others have heard of it.
template <class Body>
NIBBLE_INLINE void split(Device& device, int64_t count, int64_t work, const Body& body) {
  constexpr int64_t kWorthIt = 1 << 16;  // some four microseconds, about twice what a region costs
  if (work < kWorthIt) {
    if (count > 0) body(0, count, 0);
  } else {
    pool(device).parallel_for(count, body);
  }
}

template <class T>
NIBBLE_INLINE const T* row(const ConstRows& v, int64_t i) {
  return static_cast<const T*>(v.data) + i * v.stride;
}
template <class T>
NIBBLE_INLINE T* row(const Rows& v, int64_t i) {
  return static_cast<T*>(v.data) + i * v.stride;
}

// Calls body<float>() or body<Bf16>(): the one place where a kernel turns the dtype of activations into a type.
template <class Body>
NIBBLE_INLINE void with_dtype(DType dtype, const Body& body) {
  if (dtype == DType::kBf16)
    body.template operator()<Bf16>();
  else
    body.template operator()<float>();
}

// f(column, count) over [0, n) in steps of sixteen; count is 16 but for the tail.
template <class F>
NIBBLE_INLINE void for_lanes(int64_t n, const F& f) {
  int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes) f(k, kLanes);
  if (k < n) f(k, n - k);
}
template <class T>
NIBBLE_INLINE F16 load_n(const T* p, int64_t count) {
  return count == kLanes ? load(p) : load_head(p, count);
}
template <class T>
NIBBLE_INLINE void store_n(T* p, F16 v, int64_t count) {
  if (count == kLanes)
    store(p, v);
  else
    store_head(p, v, count);
}

template <class T>
NIBBLE_INLINE float as_float(T x) {
  if constexpr (sizeof(T) == 2)
    return to_float(x);
  else
    return x;
}

// x rounded to the element type T and back: a landing that stays in registers.
template <class T>
NIBBLE_INLINE float landed(float x) {
  if constexpr (sizeof(T) == 2)
    return to_float(to_bf16(x));
  else
    return x;
}

}  // namespace nibble::cpu::NIBBLE_ISA
