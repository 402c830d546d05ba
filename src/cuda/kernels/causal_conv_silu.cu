// A thread takes one channel of one sequence and walks its rows with the last inputs in registers.
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/math.cuh"
#include "ops/causal_conv_silu.h"

namespace nibble::cuda {
namespace {

constexpr int kThreads = 128;

template <class T>
__global__ void causal_conv_silu_kernel(ops::CausalConvSilu a) {
  const int64_t s = blockIdx.y, c = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t begin = a.sequences.row_begin.data[s], end = a.sequences.row_begin.data[s + 1];
  if (c >= a.x.cols || begin == end) return;
  const int history = static_cast<int>(a.weight.cols) - 1;
  const int64_t position = a.sequences.position.data[s], window = a.sequences.slot.data[s] * history;
  // weight and input j of the kernel's taps lie at kMaxConvTaps - 1 - history + j, the current one last.
  constexpr int kTaps = ops::kMaxConvTaps;
  float weight[kTaps];
  T input[kTaps];
  const int unused = kTaps - 1 - history;
#pragma unroll
  for (int j = 0; j < kTaps; ++j) {
    const int own = j - unused;
    weight[j] = own >= 0 ? row(a.weight, c)[own] : 0.0f;
    const bool seen = own >= 0 && own < history && position - history + own >= 0;
    input[j] = seen ? row<T>(a.window, window + own)[c] : T{};
  }
  for (int64_t t = begin; t < end; ++t) {
    input[kTaps - 1] = row<T>(a.x, t)[c];
    float y = 0.0f;
#pragma unroll
    for (int j = 0; j < kTaps; ++j) {
      if (j >= unused) y = fma(weight[j], widen(input[j]), y);
    }
    row<T>(a.out, t)[c] = land<T>(y * sigmoid(y));
#pragma unroll
    for (int j = 0; j + 1 < kTaps; ++j) input[j] = input[j + 1];
  }
#pragma unroll
  for (int j = 0; j + 1 < kTaps; ++j) {  // shifted once more: input j is now that of tap j + 1
    const int own = j - unused;
    if (own >= 0) row<T>(a.window, window + own)[c] = input[j];
  }
}

}  // namespace

void causal_conv_silu(Device& device, const ops::CausalConvSilu& a) {
  const LaunchShape shape = {.x = divide_up(a.x.cols, kThreads), .y = a.sequences.slot.size, .threads = kThreads};
  with_dtype(a.x.dtype, [&]<class T>() { launch(device, "causal_conv_silu", causal_conv_silu_kernel<T>, shape, a); });
}

}  // namespace nibble::cuda
