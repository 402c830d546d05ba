// decay = lower_bound * sigmoid(e^a_log * (gate + dt_bias)), beta = sigmoid(beta).
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/math.cuh"
#include "ops/kda_gate.h"

namespace nibble::cuda {
namespace {

template <class T>
__global__ void kda_gate_kernel(ops::KdaGate a) {
  Element e;
  if (!element(a.gate.cols, e)) return;
  const int64_t key_dim = a.gate.cols / a.a_log.size, h = e.col / key_dim;
  const float rate = exp(a.a_log.data[h]);
  const float x = widen(row<T>(a.gate, e.row)[e.col]) + a.dt_bias.data[e.col];
  row(a.decay, e.row)[e.col] = a.lower_bound * sigmoid(rate * x);
  if (e.col % key_dim == 0) row(a.beta_out, e.row)[h] = sigmoid(widen(row<T>(a.beta, e.row)[h]));
}

}  // namespace

void kda_gate(Device& device, const ops::KdaGate& a) {
  with_dtype(a.gate.dtype, [&]<class T>() {
    launch(device, "kda_gate", kda_gate_kernel<T>, elementwise(a.gate.rows, a.gate.cols), a);
  });
}

}  // namespace nibble::cuda
