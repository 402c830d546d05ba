// The k best experts of each row: a heap of k candidates, kept in the outputs, over one pass of the scores.
#include "ops/moe_route.h"

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/kernels.h"

namespace nibble::cpu::NIBBLE_ISA {
namespace {

// score = sigmoid(logit), 0 where the logit is NaN.
NIBBLE_INLINE F16 scores(F16 logits) {
  F16 r = sigmoid(logits);
  for (int i = 0; i < kParts; ++i) {
    const NativeI number = logits.part[i] == logits.part[i];
    r.part[i] = __builtin_bit_cast(NativeF, __builtin_bit_cast(NativeI, r.part[i]) & number);
  }
  return r;
}

struct Candidate {
  float key;
  int32_t id;
};
NIBBLE_INLINE bool loses(Candidate a, Candidate b) { return a.key < b.key || (a.key == b.key && a.id > b.id); }
NIBBLE_INLINE bool comes_later(Candidate a, Candidate b) { return a.id > b.id; }

// A binary heap in two arrays, the candidate that is `First` among all at index 0.
template <bool (*First)(Candidate, Candidate)>
struct Heap {
  float* key;
  int32_t* id;

  NIBBLE_INLINE Candidate get(int64_t i) const { return {key[i], id[i]}; }
  NIBBLE_INLINE void put(int64_t i, Candidate c) const { key[i] = c.key, id[i] = c.id; }
  // Puts `c` in the place of element i of a heap of n, below which the order already holds.
  NIBBLE_INLINE void sift(int64_t i, int64_t n, Candidate c) const {
    for (int64_t child = 2 * i + 1; child < n; i = child, child = 2 * i + 1) {
      if (child + 1 < n && First(get(child + 1), get(child))) ++child;
      if (!First(get(child), c)) break;
      put(i, get(child));
    }
    put(i, c);
  }
  NIBBLE_INLINE void make(int64_t n) const {
    for (int64_t i = n / 2 - 1; i >= 0; --i) sift(i, n, get(i));
  }
};

void choose(const float* logits, const float* bias, int64_t experts, int64_t k, float* key, int32_t* id) {
  const Heap<loses> worst = {key, id};
  for_lanes(experts, [&](int64_t first, int64_t count) {
    float sums[kLanes];
    store(sums, scores(load_n(logits + first, count)) + load_n(bias + first, count));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t e = first + i;
      const Candidate c = {sums[i], static_cast<int32_t>(e)};
      if (e < k) {
        worst.put(e, c);
        if (e == k - 1) worst.make(k);
      } else if (loses(worst.get(0), c)) {
        worst.sift(0, k, c);
      }
    }
  });
  const Heap<comes_later> last = {key, id};
  last.make(k);
  for (int64_t n = k - 1; n > 0; --n) {
    const Candidate moved = last.get(n);
    last.put(n, last.get(0));
    last.sift(0, n, moved);
  }
}

void weigh(const float* logits, const int32_t* id, int64_t k, float scale, float* weights) {
  for_lanes(k, [&](int64_t first, int64_t count) {
    float chosen[kLanes] = {};
    for (int64_t i = 0; i < count; ++i) chosen[i] = logits[id[first + i]];
    store_n(weights + first, scores(load(chosen)), count);
  });
  float total = 0.0f;
  for (int64_t i = 0; i < k; ++i) total = total + weights[i];
  for (int64_t i = 0; i < k; ++i) weights[i] = weights[i] / (total + 1e-20f) * scale;
}

}  // namespace

void moe_route(Device& device, const ops::MoeRoute& a) {
  split(device, a.logits.rows, a.logits.rows * a.logits.cols * 32, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const float* logits = a.logits.row(t);
      choose(logits, a.bias.data, a.bias.size, a.ids.cols, a.weights.row(t), a.ids.row(t));
      weigh(logits, a.ids.row(t), a.ids.cols, a.scale, a.weights.row(t));
    }
  });
}

}  // namespace nibble::cpu::NIBBLE_ISA
