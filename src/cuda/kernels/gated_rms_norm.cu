// y = x * rsqrt(mean(x^2) + eps) * weight * sigmoid(gate), a half-warp a head.
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/math.cuh"
#include "ops/gated_rms_norm.h"

namespace nibble::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void gated_rms_norm_kernel(ops::GatedRmsNorm a) {
  const int64_t width = a.weight.size, heads = a.x.cols / width;
  const int64_t item = static_cast<int64_t>(blockIdx.x) * half_warps() + half_warp();
  if (item >= a.x.rows * heads) return;
  const int64_t t = item / heads, column = item % heads * width;
  const T* x = row<T>(a.x, t) + column;
  const T* gate = row<T>(a.gate, t) + column;
  T* out = row<T>(a.out, t) + column;  // may be x: read whole before, then element by element
  const float scale = 1.0f / sqrtf(dot(x, x, width) / static_cast<float>(width) + a.eps);
  for (int64_t k = lane(); k < width; k += kLanes) {
    out[k] = land<T>(widen(x[k]) * scale * a.weight.data[k] * sigmoid(widen(gate[k])));
  }
}

}  // namespace

void gated_rms_norm(Device& device, const ops::GatedRmsNorm& a) {
  const int64_t items = a.x.rows * (a.x.cols / a.weight.size);
  const LaunchShape shape = {.x = divide_up(items, kThreads / kLanes), .threads = kThreads};
  with_dtype(a.x.dtype, [&]<class T>() { launch(device, "gated_rms_norm", gated_rms_norm_kernel<T>, shape, a); });
}

}  // namespace nibble::cuda
