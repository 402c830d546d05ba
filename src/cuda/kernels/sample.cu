// One token per row, a block each. The order of tokens is found lazily, a batch of the largest at a time: a radix
// select finds where the batch ends, a bitonic sort puts it in order. A draw needs only as many as it takes to pass its
// target. Sums of weights run in one thread, in the order that the contract names.
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/math.cuh"
#include "ops/philox.h"
#include "ops/sample.h"

namespace nibble::cuda {
namespace {

using ops::Sample;
using ops::SampleRow;

constexpr int kThreads = 1024, kWarp = 32, kBatch = 1024, kDigits = 256;
constexpr unsigned kAll = 0xFFFFFFFFu;
constexpr uint32_t kInfinity = 0x7F800000u;

struct Shared {
  double weights[kBatch];
  uint64_t batch[kBatch];
  int counts[kDigits];
  float best_value[kThreads / kWarp];
  int32_t best_id[kThreads / kWarp];
  uint64_t prefix;  // of the select, so far
  int wanted;       // keys below and with the prefix that are still to be counted off
  int gathered, finite, bad, stopped;
  double sum;
  int64_t count;
  int32_t id;
};

// The lower id on ties; -1 if the row holds a NaN or +inf, or nothing finite. All threads get it.
__device__ int32_t largest_of(Shared& s, const float* x, int n, float& value) {
  if (threadIdx.x == 0) s.bad = 0;
  __syncthreads();
  float best = -INFINITY;
  int32_t id = INT32_MAX;
  bool bad = false;
  for (int i = threadIdx.x; i < n; i += kThreads) {
    const uint32_t bits = __float_as_uint(x[i]);
    bad = bad || (bits & 0x7FFFFFFFu) > kInfinity || bits == kInfinity;
    if (x[i] > best) best = x[i], id = i;
  }
  if (bad) s.bad = 1;  // whoever writes, it is the same
  const auto take = [&](float other, int32_t other_id) {
    if (other > best || (other == best && other_id < id)) best = other, id = other_id;
  };
  for (int apart = kWarp / 2; apart > 0; apart /= 2) {
    const float other = __shfl_xor_sync(kAll, best, apart);
    take(other, __shfl_xor_sync(kAll, id, apart));
  }
  if (threadIdx.x % kWarp == 0) s.best_value[threadIdx.x / kWarp] = best, s.best_id[threadIdx.x / kWarp] = id;
  __syncthreads();
  for (int w = 0; w < kThreads / kWarp; ++w) take(s.best_value[w], s.best_id[w]);
  value = best;
  const bool none = s.bad != 0 || id == INT32_MAX;
  __syncthreads();
  return none ? -1 : id;
}

// Penalties: seen ids are each there once. Biases: an id may come again, so each has one thread that adds in order.
__device__ void adjust(const Sample& a, const SampleRow& how, float* x) {
  const int64_t n = a.logits.cols;
  for (int i = how.seen_begin + static_cast<int>(threadIdx.x); i < how.seen_end; i += kThreads) {
    const int64_t id = a.seen_ids.data[i];
    if (id < 0 || id >= n) continue;
    const int32_t count = a.seen_counts.data[i];
    float v = x[id] > 0 ? x[id] / how.repetition_penalty : x[id] * how.repetition_penalty;
    v = v - how.frequency_penalty * static_cast<float>(count);
    x[id] = count > 0 ? v - how.presence_penalty : v;
  }
  __syncthreads();
  for (int i = how.bias_begin; i < how.bias_end; ++i) {
    const int64_t id = a.bias_ids.data[i];
    if (id >= 0 && id < n && id % kThreads == threadIdx.x) x[id] = x[id] + a.bias_values.data[i];
  }
  __syncthreads();
}

// A token's key: the magnitude of its (never positive) tempered logit above its id, so the smallest is the next. Tokens
// that can never be drawn have none.
__device__ __forceinline__ uint64_t key_of(const float* x, int i) {
  const uint32_t magnitude = __float_as_uint(x[i]) & 0x7FFFFFFFu;
  return magnitude == kInfinity ? UINT64_MAX : uint64_t{magnitude} << 32 | static_cast<uint32_t>(i);
}
__device__ __forceinline__ double weight_of(uint64_t key) {
  return static_cast<double>(exp(-__uint_as_float(static_cast<uint32_t>(key >> 32))));
}

struct Order {
  uint64_t* sorted;  // the first `taken` keys
  const float* x;    // tempered
  int n;
  int64_t size, taken;
};

// Tempers x in place and counts the candidates; returns the weight of all, added in ascending id.
__device__ double temper(Shared& s, float* x, int n, float largest, float temperature, int64_t& size) {
  if (threadIdx.x == 0) s.finite = 0, s.sum = 0;
  __syncthreads();
  for (int base = 0; base < n; base += kBatch) {
    const int i = base + static_cast<int>(threadIdx.x);
    bool finite = false;
    if (i < n) {
      x[i] = (x[i] - largest) / temperature;
      finite = (__float_as_uint(x[i]) & 0x7FFFFFFFu) != kInfinity;
      s.weights[threadIdx.x] = finite ? static_cast<double>(exp(x[i])) : 0.0;
    }
    const unsigned in_warp = __ballot_sync(kAll, finite);
    if (threadIdx.x % kWarp == 0) atomicAdd(&s.finite, __popc(in_warp));
    __syncthreads();
    if (threadIdx.x == 0) {
      double sum = s.sum;
      const int count = n - base < kBatch ? n - base : kBatch;
#pragma unroll 8
      for (int j = 0; j < count; ++j) sum += s.weights[j];
      s.sum = sum;
    }
    __syncthreads();
  }
  size = s.finite;
  return s.sum;
}

// The key that is `wanted`-th among those behind `last`, by its digits from the top.
__device__ uint64_t select(Shared& s, const Order& o, bool first, uint64_t last, int wanted) {
  if (threadIdx.x == 0) s.prefix = 0, s.wanted = wanted;
  for (int shift = 56; shift >= 0; shift -= 8) {
    if (threadIdx.x < kDigits) s.counts[threadIdx.x] = 0;
    __syncthreads();
    const uint64_t prefix = s.prefix;
    for (int i = threadIdx.x; i < o.n; i += kThreads) {
      const uint64_t key = key_of(o.x, i);
      if (key == UINT64_MAX || (!first && key <= last)) continue;
      if (shift < 56 && key >> (shift + 8) != prefix >> (shift + 8)) continue;
      atomicAdd(&s.counts[key >> shift & 0xFFu], 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int digit = 0;
      for (; s.counts[digit] < s.wanted; ++digit) s.wanted -= s.counts[digit];
      s.prefix = prefix | static_cast<uint64_t>(digit) << shift;
    }
    __syncthreads();
  }
  return s.prefix;
}

// Sorts s.batch, ascending.
__device__ void sort_batch(Shared& s) {
  for (int size = 2; size <= kBatch; size *= 2) {
    for (int apart = size / 2; apart > 0; apart /= 2) {
      const int i = threadIdx.x, other = i ^ apart;
      if (other > i) {
        const uint64_t a = s.batch[i], b = s.batch[other];
        if ((a > b) == ((i & size) == 0)) s.batch[i] = b, s.batch[other] = a;
      }
      __syncthreads();
    }
  }
}

// Makes one more batch of the order known.
__device__ void extend(Shared& s, Order& o) {
  const int64_t left = o.size - o.taken;
  const int wanted = static_cast<int>(left < kBatch ? left : kBatch);
  const bool first = o.taken == 0;
  const uint64_t last = first ? 0 : o.sorted[o.taken - 1], end = select(s, o, first, last, wanted);
  s.batch[threadIdx.x] = UINT64_MAX;
  if (threadIdx.x == 0) s.gathered = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < o.n; i += kThreads) {
    const uint64_t key = key_of(o.x, i);
    if (key <= end && (first || key > last)) s.batch[atomicAdd(&s.gathered, 1)] = key;
  }
  __syncthreads();
  sort_batch(s);
  if (static_cast<int>(threadIdx.x) < wanted) o.sorted[o.taken + threadIdx.x] = s.batch[threadIdx.x];
  o.taken += wanted;
  __syncthreads();
}

// One thread calls step(i, weight) for the tokens in order, as long as it says so and i < limit.
template <class Step>
__device__ void walk(Shared& s, Order& o, int64_t limit, const Step& step) {
  if (threadIdx.x == 0) s.stopped = 0;
  for (int64_t base = 0; base < limit; base += kBatch) {
    const int count = static_cast<int>(limit - base < kBatch ? limit - base : kBatch);
    while (o.taken < base + count) extend(s, o);
    if (static_cast<int>(threadIdx.x) < count) s.weights[threadIdx.x] = weight_of(o.sorted[base + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int i = 0; i < count && s.stopped == 0; ++i) s.stopped = step(base + i, s.weights[i]) ? 0 : 1;
    }
    __syncthreads();
    if (s.stopped != 0) return;
  }
}

// How many tokens of the order are kept, and their weight.
struct Kept {
  int64_t count;
  double weight;
};
__device__ Kept keep(Shared& s, Order& o, const SampleRow& how, double all) {
  int64_t limit = o.size;
  if (how.top_k > 0 && how.top_k < limit) {
    limit = how.top_k;
    double sum = 0;
    walk(s, o, limit, [&](int64_t, double weight) {
      sum += weight;
      return true;
    });
    if (threadIdx.x == 0) s.sum = sum;
    __syncthreads();
    all = s.sum;
    __syncthreads();
  }
  if (!(how.top_p < 1) && !(how.min_p > 0)) return {limit, all};
  const double enough = how.top_p < 1 ? static_cast<double>(how.top_p) * all : INFINITY;
  Kept kept = {0, 0.0};
  walk(s, o, limit, [&](int64_t i, double weight) {
    if (i > 0 && (!(kept.weight < enough) || weight < static_cast<double>(how.min_p))) return false;
    kept.weight += weight;
    ++kept.count;
    return true;
  });
  if (threadIdx.x == 0) s.count = kept.count, s.sum = kept.weight;
  __syncthreads();
  kept = {s.count, s.sum};
  __syncthreads();
  return kept;
}

__device__ int32_t draw(Shared& s, Order& o, const Kept& kept, double u) {
  const double target = u * kept.weight;
  double cumulative = 0;
  walk(s, o, kept.count, [&](int64_t i, double weight) {
    s.id = static_cast<int32_t>(o.sorted[i] & 0xFFFFFFFFu);  // the last one, where none passes
    return !((cumulative += weight) > target);
  });
  __syncthreads();
  return s.id;
}

// The token of a row, or -1; all threads get it.
__device__ int32_t choose(Shared& s, const Sample& a, int64_t r, std::byte* slice) {
  const SampleRow& how = a.rows.data[r];
  const int n = static_cast<int>(a.logits.cols);
  auto* x = reinterpret_cast<float*>(slice + a.logits.cols * 8);
  const float* logits = row(a.logits, r);
  float largest = 0.0f;
  if (largest_of(s, logits, n, largest) < 0) return -1;
  for (int i = threadIdx.x; i < n; i += kThreads) x[i] = logits[i];
  __syncthreads();
  adjust(a, how, x);
  const int32_t best = largest_of(s, x, n, largest);
  if (best < 0 || !(how.temperature >= Sample::kGreedyBelow)) return best;
  Order order = {reinterpret_cast<uint64_t*>(slice), x, n, 0, 0};
  const double all = temper(s, x, n, largest, how.temperature, order.size);
  return draw(s, order, keep(s, order, how, all), ops::uniform_draw(how.seed, how.position));
}

__global__ void __launch_bounds__(kThreads) sample_kernel(Sample a) {
  __shared__ Shared shared;
  std::byte* slice = a.scratch.data + blockIdx.x * ops::sample_slice_bytes(a.logits.cols);
  for (int64_t r = blockIdx.x; r < a.logits.rows; r += gridDim.x) {
    const int32_t id = choose(shared, a, r, slice);
    if (threadIdx.x == 0) a.ids.data[r] = id, a.status.data[r] = id < 0 ? Sample::kBadLogits : Sample::kOk;
    __syncthreads();
  }
}

}  // namespace

// A slice a multiprocessor.
size_t sample_scratch(const Device& device, int64_t vocabulary) {
  return static_cast<size_t>(device.concurrency() * ops::sample_slice_bytes(vocabulary));
}

void sample(Device& device, const Sample& a) {
  const int64_t blocks = a.logits.rows < device.concurrency() ? a.logits.rows : device.concurrency();
  launch(device, "sample", sample_kernel, {.x = blocks, .threads = kThreads}, a);
}

}  // namespace nibble::cuda
