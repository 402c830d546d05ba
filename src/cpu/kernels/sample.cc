// One token per row. The order of tokens is found lazily, from a heap: a draw needs only as many of the largest as it
// takes to pass its target, which is few for a model that knows what it wants to say.
#include "ops/sample.h"

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/kernels.h"
#include "ops/philox.h"

namespace nibble::cpu::NIBBLE_ISA {
namespace {

using ops::Sample;
using ops::SampleRow;

NIBBLE_INLINE uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
constexpr uint32_t kInfinity = 0x7F800000u;

// The largest of a row, the first of equals, or an id of -1 if the row holds a NaN or +inf, or nothing finite.
struct Largest {
  float value = -__builtin_inff();
  int32_t id = -1;
};
// Each lane keeps its own first largest.
NIBBLE_INLINE Largest largest_of(const float* x, int64_t n) {
  constexpr float kLow = -__builtin_inff(), kHigh = __builtin_inff();
  F16 best = broadcast(kLow);
  NativeI at[kParts] = {}, bad[kParts] = {};
  const int64_t whole = n / kLanes * kLanes;
  for (int64_t k = 0; k < whole; k += kLanes) {
    const F16 v = load(x + k);
    for (int i = 0; i < kParts; ++i) {
      const NativeI larger = v.part[i] > best.part[i];
      bad[i] |= (v.part[i] != v.part[i]) | (v.part[i] == native_broadcast(kHigh));
      best.part[i] = native_max(best.part[i], v.part[i]);
      at[i] = (larger & static_cast<int32_t>(k)) | (~larger & at[i]);
    }
  }
  float value[kLanes];
  int32_t id[kLanes], unusable[kLanes];
  store(value, best);
  __builtin_memcpy(id, at, sizeof id);
  __builtin_memcpy(unusable, bad, sizeof unusable);
  Largest out;
  for (int32_t i = 0; i < kLanes; ++i) {
    if (unusable[i] != 0) return {};
    const int32_t here = id[i] + i;
    if (value[i] > out.value || (value[i] == out.value && value[i] > kLow && here < out.id)) out = {value[i], here};
  }
  for (int64_t k = whole; k < n; ++k) {
    if (x[k] != x[k] || x[k] == kHigh) return {};
    if (x[k] > out.value) out = {x[k], static_cast<int32_t>(k)};
  }
  return out;
}

NIBBLE_INLINE void adjust(const Sample& a, const SampleRow& how, float* x) {
  for (int64_t i = how.seen_begin; i < how.seen_end; ++i) {
    const int64_t id = a.seen_ids.data[i];
    if (id < 0 || id >= a.logits.cols) continue;
    const int32_t count = a.seen_counts.data[i];
    float v = x[id] > 0 ? x[id] / how.repetition_penalty : x[id] * how.repetition_penalty;
    v = v - how.frequency_penalty * static_cast<float>(count);
    x[id] = count > 0 ? v - how.presence_penalty : v;
  }
  for (int64_t i = how.bias_begin; i < how.bias_end; ++i) {
    const int64_t id = a.bias_ids.data[i];
    if (id >= 0 && id < a.logits.cols) x[id] = x[id] + a.bias_values.data[i];
  }
}

// A heap of keys, the smallest first. Taken keys gather at the end of the array, the first at the very end.
struct Heap {
  uint64_t* keys = nullptr;
  int64_t size = 0;
  int64_t taken = -1;  // in order; -1 while it is no heap yet

  NIBBLE_INLINE void sink(int64_t i, int64_t n) {
    const uint64_t key = keys[i];
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
      if (child + 1 < n && keys[child + 1] < keys[child]) ++child;
      if (key <= keys[child]) break;
      keys[i] = keys[child];
    }
    keys[i] = key;
  }
  NIBBLE_INLINE uint64_t key(int64_t i) {
    if (taken < 0) {
      for (int64_t at = size / 2; at-- > 0;) sink(at, size);
      taken = 0;
    }
    while (taken <= i) {
      const int64_t last = size - 1 - taken++;
      const uint64_t smallest = keys[0];
      keys[0] = keys[last];
      if (last > 0) sink(0, last);
      keys[last] = smallest;
    }
    return keys[size - 1 - i];
  }
};

// Tokens in the order of the draw. A key is the magnitude of the (never positive) tempered logit above the id, so the
// smallest key is the next token. Those whose weight is not tiny are ordered first, for a draw seldom needs others.
struct Order {
  static constexpr float kTiny = 12.0f;  // e^-12
  uint64_t* keys;
  int64_t capacity;
  int64_t near = 0, far = 0;  // filled from the front and from the back
  Heap heaps[2] = {};

  NIBBLE_INLINE int64_t size() const { return near + far; }
  NIBBLE_INLINE void add(uint32_t magnitude, int64_t id) {
    const uint64_t key = uint64_t{magnitude} << 32 | static_cast<uint64_t>(id);
    keys[magnitude < bits_of(kTiny) ? near++ : capacity - 1 - far++] = key;
  }
  NIBBLE_INLINE void build() {
    heaps[0] = {keys, near};
    heaps[1] = {keys + capacity - far, far};
  }
  NIBBLE_INLINE uint64_t key(int64_t i) { return i < near ? heaps[0].key(i) : heaps[1].key(i - near); }
  NIBBLE_INLINE int32_t id(int64_t i) { return static_cast<int32_t>(key(i) & 0xFFFFFFFFu); }
  NIBBLE_INLINE double weight(int64_t i) {
    const float magnitude = __builtin_bit_cast(float, static_cast<uint32_t>(key(i) >> 32));
    return static_cast<double>(first_lane(exp(broadcast(-magnitude))));
  }
};

// Tempers x in place and lists the candidates; returns the weight of all, summed in ascending id.
NIBBLE_INLINE double temper(float* x, int64_t n, float largest, float temperature, Order& order) {
  double all = 0;
  for_lanes(n, [&](int64_t k, int64_t count) {
    const F16 tempered = (load_n(x + k, count) - broadcast(largest)) / broadcast(temperature);
    float value[kLanes], weight[kLanes];
    store(value, tempered);
    store(weight, exp(tempered));
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t magnitude = bits_of(value[i]) & 0x7FFFFFFFu;
      if (magnitude == kInfinity) continue;
      all += static_cast<double>(weight[i]);
      order.add(magnitude, k + i);
    }
  });
  order.build();
  return all;
}

// How many tokens of the order are kept, and their weight.
struct Kept {
  int64_t count;
  double weight;
};
NIBBLE_INLINE Kept keep(Order& order, const SampleRow& how, double all) {
  int64_t limit = order.size();
  if (how.top_k > 0 && how.top_k < limit) {
    limit = how.top_k;
    all = 0;
    for (int64_t i = 0; i < limit; ++i) all += order.weight(i);
  }
  if (!(how.top_p < 1) && !(how.min_p > 0)) return {limit, all};
  const double enough = how.top_p < 1 ? static_cast<double>(how.top_p) * all : __builtin_inf();
  Kept kept = {0, 0.0};
  while (kept.count < limit && (kept.count == 0 || kept.weight < enough)) {
    const double weight = order.weight(kept.count);
    if (kept.count > 0 && weight < static_cast<double>(how.min_p)) break;
    kept.weight += weight;
    ++kept.count;
  }
  return kept;
}

NIBBLE_INLINE int32_t draw(Order& order, const Kept& kept, double u) {
  const double target = u * kept.weight;
  double cumulative = 0;
  for (int64_t i = 0; i < kept.count; ++i) {
    if ((cumulative += order.weight(i)) > target) return order.id(i);
  }
  return order.id(kept.count - 1);
}

// The token of a row, or -1.
NIBBLE_INLINE int32_t choose(const Sample& a, int64_t r, std::byte* slice) {
  const SampleRow& how = a.rows.data[r];
  const int64_t n = a.logits.cols;
  Order order = {reinterpret_cast<uint64_t*>(slice), n};
  auto* x = reinterpret_cast<float*>(slice + n * 8);
  if (largest_of(a.logits.row(r), n).id < 0) return -1;
  __builtin_memcpy(x, a.logits.row(r), static_cast<size_t>(n) * sizeof(float));
  adjust(a, how, x);
  const Largest best = largest_of(x, n);
  if (best.id < 0 || !(how.temperature >= Sample::kGreedyBelow)) return best.id;
  const double all = temper(x, n, best.value, how.temperature, order);
  return draw(order, keep(order, how, all), ops::uniform_draw(how.seed, how.position));
}

}  // namespace

void sample(Device& device, const Sample& a) {
  pool(device).parallel_for(a.logits.rows, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t r = begin; r < end; ++r) {
      const int32_t id = choose(a, r, a.scratch.data + worker * ops::sample_slice_bytes(a.logits.cols));
      a.ids.data[r] = id;
      a.status.data[r] = id < 0 ? Sample::kBadLogits : Sample::kOk;
    }
  });
}

}  // namespace nibble::cpu::NIBBLE_ISA
