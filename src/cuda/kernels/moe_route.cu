// A warp a row. The k best are found one after the other: each is the first, in the order of choice, behind the one
// before, so nothing needs to be marked. Sums of score and bias are kept in shared memory, where they fit.
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/math.cuh"
#include "ops/moe_route.h"

namespace nibble::cuda {
namespace {

constexpr int kWarp = 32, kThreads = 128;
constexpr unsigned kAll = 0xFFFFFFFFu;

struct Candidate {
  float key;
  int32_t id;
};
__device__ __forceinline__ bool before(const Candidate& a, const Candidate& b) {
  return a.key > b.key || (a.key == b.key && a.id < b.id);
}

// sigmoid(logit), 0 where the logit is NaN.
__device__ __forceinline__ float score(float logit) { return logit == logit ? sigmoid(logit) : 0.0f; }

// The best expert of those behind `last`; every lane gets it. `key(e)` is what experts are chosen by.
template <class Key>
__device__ Candidate next(const Key& key, int experts, const Candidate& last, bool first) {
  Candidate best = {0.0f, INT32_MAX};
  bool found = false;
  for (int e = static_cast<int>(threadIdx.x) % kWarp; e < experts; e += kWarp) {
    const Candidate c = {key(e), e};
    if (!first && !before(last, c)) continue;
    if (!found || before(c, best)) best = c;
    found = true;
  }
  for (int apart = kWarp / 2; apart > 0; apart /= 2) {
    const Candidate other = {__shfl_xor_sync(kAll, best.key, apart), __shfl_xor_sync(kAll, best.id, apart)};
    const bool theirs = __shfl_xor_sync(kAll, static_cast<int>(found), apart) != 0;
    if (theirs && (!found || before(other, best))) best = other;
    found = found || theirs;
  }
  return best;
}

constexpr int kKept = 2048;  // experts whose sums are kept

__global__ void __launch_bounds__(kThreads) moe_route_kernel(ops::MoeRoute a) {
  __shared__ float kept[kThreads / kWarp][kKept];
  const int64_t t = static_cast<int64_t>(blockIdx.x) * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (t >= a.logits.rows) return;
  const int experts = static_cast<int>(a.logits.cols), k = static_cast<int>(a.ids.cols);
  const int own = static_cast<int>(threadIdx.x) % kWarp;
  const float* logits = row(a.logits, t);
  int32_t* ids = row(a.ids, t);
  float* weights = row(a.weights, t);
  auto* found = reinterpret_cast<int32_t*>(weights);  // in the order of choice, until the weights go there

  float* sums = kept[threadIdx.x / kWarp];
  for (int e = own; e < experts && e < kKept; e += kWarp) sums[e] = score(logits[e]) + a.bias.data[e];
  __syncwarp();
  const auto key = [&](int e) { return e < kKept ? sums[e] : score(logits[e]) + a.bias.data[e]; };
  Candidate last = {0.0f, 0};
  for (int i = 0; i < k; ++i) {
    last = next(key, experts, last, i == 0);
    if (own == 0) found[i] = last.id;
  }
  __syncwarp();
  for (int i = own; i < k; i += kWarp) {  // each to the place that its id has among all
    const int32_t id = found[i];
    int place = 0;
    for (int j = 0; j < k; ++j) place += found[j] < id;
    ids[place] = id;
  }
  __syncwarp();
  for (int i = own; i < k; i += kWarp) weights[i] = score(logits[ids[i]]);
  __syncwarp();
  float total = 0.0f;
  for (int i = 0; i < k; ++i) total = total + weights[i];
  __syncwarp();
  for (int i = own; i < k; i += kWarp) weights[i] = weights[i] / (total + 1e-20f) * a.scale;
}

}  // namespace

void moe_route(Device& device, const ops::MoeRoute& a) {
  launch(device, "moe_route", moe_route_kernel, {.x = divide_up(a.logits.rows, kThreads / kWarp), .threads = kThreads},
         a);
}

}  // namespace nibble::cuda
