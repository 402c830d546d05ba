// out = x * land(sigmoid(gate)).
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/math.cuh"
#include "ops/sigmoid_mul.h"

namespace nibble::cuda {
namespace {

template <class T>
__global__ void sigmoid_mul_kernel(ops::SigmoidMul a) {
  Element e;
  if (!element(a.out.cols, e)) return;
  const float factor = landed<T>(sigmoid(widen(row<T>(a.gate, e.row)[e.col])));
  row<T>(a.out, e.row)[e.col] = land<T>(widen(row<T>(a.x, e.row)[e.col]) * factor);
}

}  // namespace

void sigmoid_mul(Device& device, const ops::SigmoidMul& a) {
  with_dtype(a.out.dtype, [&]<class T>() {
    launch(device, "sigmoid_mul", sigmoid_mul_kernel<T>, elementwise(a.out.rows, a.out.cols), a);
  });
}

}  // namespace nibble::cuda
