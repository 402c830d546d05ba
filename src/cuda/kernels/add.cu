// out = a + b, or a copy of a.
#include "cuda/kernels/kernel.cuh"
#include "cuda/kernels/kernels.h"
#include "ops/add.h"

namespace nibble::cuda {
namespace {

template <class T>
__global__ void add_kernel(ops::Add a) {
  Element e;
  if (!element(a.out.cols, e)) return;
  const float x = widen(row<T>(a.a, e.row)[e.col]);
  row<T>(a.out, e.row)[e.col] = land<T>(a.b.rows == 0 ? x : x + widen(row<T>(a.b, e.row)[e.col]));
}

}  // namespace

void add(Device& device, const ops::Add& a) {
  with_dtype(a.out.dtype,
             [&]<class T>() { launch(device, "add", add_kernel<T>, elementwise(a.out.rows, a.out.cols), a); });
}

}  // namespace nibble::cuda
