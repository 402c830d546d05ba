// out = situ(gate, up), element by element.
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/math.cuh"
#include "ops/situ.h"

namespace nibble::cuda {
namespace {

template <class T>
__global__ void situ_kernel(ops::Situ a) {
  Element e;
  if (!element(a.gate.cols, e)) return;
  const float gate = widen(row<T>(a.gate, e.row)[e.col]), up = widen(row<T>(a.up, e.row)[e.col]);
  row<T>(a.out, e.row)[e.col] = land<T>(situ(gate, up, a.beta, a.linear_beta));
}

}  // namespace

void situ(Device& device, const ops::Situ& a) {
  with_dtype(a.gate.dtype,
             [&]<class T>() { launch(device, "situ", situ_kernel<T>, elementwise(a.gate.rows, a.gate.cols), a); });
}

}  // namespace nibble::cuda
