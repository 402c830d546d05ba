// Views of memory that somebody else owns: a pointer with its shape. They may point at device memory, so nothing above
// the kernels dereferences them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bf16.h"
#include "base/dtype.h"

namespace nibble {

template <class T>
struct View1 {  // [size], dense
  T* data = nullptr;
  int64_t size = 0;
  [[gnu::always_inline]] operator View1<const T>() const { return {data, size}; }
};

template <class T>
struct View2 {  // [rows, cols], rows `stride` elements apart
  T* data = nullptr;
  int64_t rows = 0, cols = 0, stride = 0;
  [[gnu::always_inline]] T* row(int64_t i) const { return data + i * stride; }
  [[gnu::always_inline]] operator View2<const T>() const { return {data, rows, cols, stride}; }
};

// Activations: fp32 in the exact mode, bf16 where the published code lands. The dtype is data, so one op serves both.
// Storing into a bf16 view is the landing; whatever is computed before it stays fp32.
struct ConstRows {  // [rows, cols]
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0, cols = 0, stride = 0;  // stride in elements
};

struct Rows {  // [rows, cols]
  void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0, cols = 0, stride = 0;
  [[gnu::always_inline]] operator ConstRows() const { return {data, dtype, rows, cols, stride}; }
  // Columns [begin, begin + count) of every row.
  Rows columns(int64_t begin, int64_t count) const {
    return {static_cast<std::byte*>(data) + begin * bytes_of(dtype), dtype, rows, count, stride};
  }
};

// Bytes from the first to one past the last element that the view can touch; {0, 0} for an empty one.
struct Extent {
  uintptr_t begin = 0, end = 0;
};
template <class V>
Extent extent(const V& v) {
  const auto begin = reinterpret_cast<uintptr_t>(v.data);
  if constexpr (requires { v.size; }) {
    return v.size == 0 ? Extent{} : Extent{begin, begin + static_cast<uintptr_t>(v.size) * sizeof(*v.data)};
  } else {
    if (v.rows == 0 || v.cols == 0) return {};
    const auto elements = static_cast<uintptr_t>((v.rows - 1) * v.stride + v.cols);
    if constexpr (requires { v.dtype; }) {
      return {begin, begin + elements * static_cast<uintptr_t>(bytes_of(v.dtype))};
    } else {
      return {begin, begin + elements * sizeof(*v.data)};
    }
  }
}
template <class A, class B>
bool overlap(const A& a, const B& b) {
  const Extent x = extent(a), y = extent(b);
  return x.begin < y.end && y.begin < x.end;
}

}  // namespace nibble
