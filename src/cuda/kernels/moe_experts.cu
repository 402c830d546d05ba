// The routed experts, grouped: each expert's weights are read once for every four of its rows. A row's outputs are then
// added in ascending expert by whoever has the column, so a row does not depend on the others.
#include "cuda/kernels/dots.cuh"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/math.cuh"
#include "ops/moe_experts.h"

namespace nibble::cuda {
namespace {

using ops::MoeExperts;

constexpr int kWarp = 32, kThreads = 128;
constexpr unsigned kAll = 0xFFFFFFFFu;

// Where things lie in the scratch, in bytes.
struct Layout {
  int64_t end = 0;      // int32 [E] where each expert's rows end in `order`
  int64_t order = 0;    // int32 [T * k] routed rows t * k + i, by expert, ascending within each
  int64_t place = 0;    // int32 [T * k] the inverse of order
  int64_t hidden = 0;   // [T * k, F] outputs of situ, in `order`
  int64_t outputs = 0;  // [T * k, L] of w2, landed, in `order`
  int64_t bytes = 0;
};
// Sized for fp32 activations; with bf16 half of the two large parts stays unused.
Layout layout(int64_t rows, int64_t top_k, int64_t experts, int64_t latent_dim, int64_t expert_dim) {
  Layout at;
  const auto take = [&at](int64_t bytes) {
    const int64_t begin = at.bytes;
    at.bytes += divide_up(bytes, 256) * 256;
    return begin;
  };
  at.end = take(experts * 4);
  at.order = take(rows * top_k * 4);
  at.place = take(rows * top_k * 4);
  at.hidden = take(rows * top_k * expert_dim * 4);
  at.outputs = take(rows * top_k * latent_dim * 4);
  return at;
}

template <class X>
struct Work {
  int32_t *end, *order, *place;
  X *hidden, *outputs;
};

// A warp an expert: counts who goes to lower experts and to its own, then places its own in order. No atomics.
__global__ void group_kernel(MoeExperts a, int32_t* end, int32_t* order, int32_t* place) {
  const int e = static_cast<int>((static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / kWarp);
  if (e >= a.w1.experts.size) return;
  const int own = static_cast<int>(threadIdx.x) % kWarp, k = static_cast<int>(a.ids.cols);
  const int total = static_cast<int>(a.ids.rows) * k;
  const auto id_of = [&](int i) { return i < total ? row(a.ids, i / k)[i % k] : INT32_MAX; };
  int before = 0, mine = 0;
  for (int base = 0; base < total; base += kWarp) {
    const int32_t id = id_of(base + own);
    before += __popc(__ballot_sync(kAll, id < e));
    mine += __popc(__ballot_sync(kAll, id == e));
  }
  if (own == 0) end[e] = before + mine;
  int at = before;
  for (int base = 0; base < total && at < before + mine; base += kWarp) {
    const bool here = id_of(base + own) == e;
    const unsigned all = __ballot_sync(kAll, here);
    if (here) {
      const int to = at + __popc(all & ((1u << own) - 1u));
      order[to] = base + own;
      place[base + own] = to;
    }
    at += __popc(all);
  }
}

// A run of at most kTokens entries of `order` with one expert, which begins at the block's x; where there are many
// rows, none for most blocks.
struct Run {
  int32_t expert = 0;
  int first = 0, count = 0;
};
template <int kTokens, class X>
__device__ __forceinline__ Run run(const MoeExperts& a, const Work<X>& work) {
  const int p = static_cast<int>(blockIdx.x), k = static_cast<int>(a.ids.cols), routed = work.order[p];
  const int32_t e = row(a.ids, routed / k)[routed % k];
  const int begin = e == 0 ? 0 : work.end[e - 1], left = work.end[e] - p;
  if ((p - begin) % kTokens != 0) return {};
  return {e, p, left < kTokens ? left : kTokens};
}

template <class X, class Row, int kTokens, bool kVector>
__global__ void __launch_bounds__(kFewThreads) up_kernel(MoeExperts a, Work<X> work) {
  const Run r = run<kTokens>(a, work);
  if (r.count == 0) return;
  const int64_t f = static_cast<int64_t>(blockIdx.y) * kFewRows + pair(), last = a.w1.rows - 1, n = f < last ? f : last;
  const int k = static_cast<int>(a.ids.cols);
  const X* x[kTokens];
#pragma unroll
  for (int t = 0; t < kTokens; ++t) x[t] = row<X>(a.x, work.order[r.first + (t < r.count ? t : 0)] / k);
  float gate[kTokens], up[kTokens];
  dots<kTokens, kVector>(Row(a.w1.experts.data[r.expert], n), a.w1.cols, x, gate);
  dots<kTokens, kVector>(Row(a.w3.experts.data[r.expert], n), a.w1.cols, x, up);
  if (f > last || threadIdx.x % kPair != 0) return;
#pragma unroll
  for (int t = 0; t < kTokens; ++t) {
    if (t >= r.count) break;
    work.hidden[(r.first + t) * a.w1.rows + f] =
        land<X>(situ(landed<X>(gate[t]), landed<X>(up[t]), a.beta, a.linear_beta));
  }
}

template <class X, class Row, int kTokens, bool kVector>
__global__ void __launch_bounds__(kFewThreads) down_kernel(MoeExperts a, Work<X> work) {
  const Run r = run<kTokens>(a, work);
  if (r.count == 0) return;
  const int64_t l = static_cast<int64_t>(blockIdx.y) * kFewRows + pair(), last = a.w2.rows - 1, n = l < last ? l : last;
  const X* hidden[kTokens];
#pragma unroll
  for (int t = 0; t < kTokens; ++t) hidden[t] = work.hidden + (r.first + (t < r.count ? t : 0)) * a.w2.cols;
  float out[kTokens];
  dots<kTokens, kVector>(Row(a.w2.experts.data[r.expert], n), a.w2.cols, hidden, out);
  if (l > last || threadIdx.x % kPair != 0) return;
#pragma unroll
  for (int t = 0; t < kTokens; ++t) {
    if (t < r.count) work.outputs[(r.first + t) * a.w2.rows + l] = land<X>(out[t]);
  }
}

template <class X>
__global__ void combine_kernel(MoeExperts a, Work<X> work) {
  Element e;
  if (!element(a.out.cols, e)) return;
  const int k = static_cast<int>(a.ids.cols);
  float sum = 0.0f;
  for (int i = 0; i < k; ++i) {
    const int64_t p = work.place[e.row * k + i];
    sum = fma(row(a.weights, e.row)[i], widen(work.outputs[p * a.out.cols + e.col]), sum);
  }
  row<X>(a.out, e.row)[e.col] = land<X>(sum);
}

}  // namespace

size_t moe_experts_scratch(const Device&, int64_t rows, int64_t top_k, int64_t experts, int64_t latent_dim,
                           int64_t expert_dim) {
  return static_cast<size_t>(layout(rows, top_k, experts, latent_dim, expert_dim).bytes);
}

void moe_experts(Device& device, const MoeExperts& a) {
  const int64_t routed = a.x.rows * a.ids.cols, experts = a.w1.experts.size;
  const Layout at = layout(a.x.rows, a.ids.cols, experts, a.x.cols, a.w1.rows);
  const auto ints = [&](int64_t offset) { return reinterpret_cast<int32_t*>(a.scratch.data + offset); };
  launch(device, "moe_experts", group_kernel, {.x = divide_up(experts * kWarp, kThreads), .threads = kThreads}, a,
         ints(at.end), ints(at.order), ints(at.place));
  // Experts lie where the device put them, on boundaries of 256 bytes; only widths can stand in the way of wide loads.
  const bool vector = wide(a.x) && a.w1.rows % kColumns == 0;
  const LaunchShape up = {.x = routed, .y = divide_up(a.w1.rows, kFewRows), .threads = kFewThreads};
  const LaunchShape down = {.x = routed, .y = divide_up(a.w2.rows, kFewRows), .threads = kFewThreads};
  with_dtype(a.x.dtype, [&]<class X>() {
    const Work<X> work = {ints(at.end), ints(at.order), ints(at.place),
                          reinterpret_cast<X*>(a.scratch.data + at.hidden),
                          reinterpret_cast<X*>(a.scratch.data + at.outputs)};
    // One row alone is worth a kernel of its own: more loads of weights under way.
    const auto run = [&]<int kTokens, bool kVector>() {
      with_row_type(a.w1.format, [&]<class Row>() {
        launch(device, "moe_experts", up_kernel<X, Row, kTokens, kVector>, up, a, work);
      });
      with_row_type(a.w2.format, [&]<class Row>() {
        launch(device, "moe_experts", down_kernel<X, Row, kTokens, kVector>, down, a, work);
      });
    };
    if (!vector)
      run.template operator()<1, false>();
    else if (a.x.rows == 1)
      run.template operator()<1, true>();
    else
      run.template operator()<4, true>();
    launch(device, "moe_experts", combine_kernel<X>, elementwise(a.out.rows, a.out.cols), a, work);
  });
}

}  // namespace nibble::cuda
