// Each task takes one head of one sequence and walks its rows segment by segment. The rows of a segment that are in the
// step go together, so that S0 is read once for all of them; each number is nevertheless computed by the same
// operations in the same order as if they came one by one.
#include "ops/kda_rows.h"

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/kernels.h"

namespace nibble::cpu::NIBBLE_ISA {
namespace {

constexpr int64_t kSegment = ops::kSegmentTokens;

// One head of one slot.
struct Head {
  int64_t key_dim, value_dim, width;
  float* state;    // [V, K]
  float* records;  // [16, 2 K + V]
  [[gnu::always_inline]] float* cumulative(int64_t i) const { return records + i * width; }
  [[gnu::always_inline]] float* key(int64_t i) const { return records + i * width + key_dim; }
  [[gnu::always_inline]] float* value(int64_t i) const { return records + i * width + 2 * key_dim; }
};

// A worker's slice of scratch; rows are counted from the segment's start.
struct Scratch {
  float *key, *query;                // [16, K] k e^G, q e^G
  float *scaled_key, *scaled_query;  // [K] k e^G c, q e^G c of the row at hand
  float *predicted, *read;           // [16, V] S0 (k e^G), S0 (q e^G)
  float *a, *b;                      // [16, 16]
  [[gnu::always_inline]] Scratch(float* p, int64_t key_dim, int64_t value_dim)
      : key(p),
        query(key + kSegment * key_dim),
        scaled_key(query + kSegment * key_dim),
        scaled_query(scaled_key + key_dim),
        predicted(scaled_query + key_dim),
        read(predicted + kSegment * value_dim),
        a(read + kSegment * value_dim),
        b(a + kSegment * kSegment) {}
};

// G and k~ of row i into its record, the other factors and row i of a and b into scratch.
template <class T>
NIBBLE_INLINE void enter_row(const Head& head, const Scratch& s, int64_t i, const T* q, const T* k,
                             const float* decay) {
  const int64_t n = head.key_dim;
  const F16 k_scale = broadcast(1.0f / __builtin_sqrtf(dot(k, k, n) + 1e-6f));
  const F16 q_scale = broadcast(1.0f / __builtin_sqrtf(dot(q, q, n) + 1e-6f) / __builtin_sqrtf(static_cast<float>(n)));
  float* cumulative = head.cumulative(i);
  const float* before = i == 0 ? nullptr : head.cumulative(i - 1);
  for_lanes(n, [&](int64_t c, int64_t count) {
    const F16 key = load_n(k + c, count) * k_scale, query = load_n(q + c, count) * q_scale;
    const F16 g = (before == nullptr ? zero() : load_n(before + c, count)) + load_n(decay + c, count);
    const F16 factor = exp(g), scaled = factor * broadcast(ops::kKdaScale);
    store_n(cumulative + c, g, count);
    store_n(head.key(i) + c, key * (exp(zero() - g) * broadcast(1.0f / ops::kKdaScale)), count);
    store_n(s.key + i * n + c, key * factor, count);
    store_n(s.query + i * n + c, query * factor, count);
    store_n(s.scaled_key + c, key * scaled, count);
    store_n(s.scaled_query + c, query * scaled, count);
  });
  for (int64_t j = 0; j <= i; ++j) {
    if (j < i) s.a[i * kSegment + j] = dot(head.key(j), s.scaled_key, n);
    s.b[i * kSegment + j] = dot(head.key(j), s.scaled_query, n);
  }
}

// S0 (k e^G) and S0 (q e^G) of rows first .. end - 1.
NIBBLE_INLINE void read_state(const Head& head, const Scratch& s, int64_t first, int64_t end) {
  const int64_t n = head.key_dim;
  for (int64_t v = 0; v < head.value_dim; ++v) {
    const float* state = head.state + v * n;
    for (int64_t i = first; i < end; ++i) {
      F16 predicted = zero(), read = zero();
      for_lanes(n, [&](int64_t c, int64_t count) {
        const F16 x = load_n(state + c, count);
        predicted = fma(x, load_n(s.key + i * n + c, count), predicted);
        read = fma(x, load_n(s.query + i * n + c, count), read);
      });
      s.predicted[i * head.value_dim + v] = sum(predicted);
      s.read[i * head.value_dim + v] = sum(read);
    }
  }
}

// v' of row i into its record, and its output. `fresh`: S0 counts as zero.
template <class T>
NIBBLE_INLINE void finish_row(const Head& head, const Scratch& s, int64_t i, bool fresh, const T* v, float beta,
                              T* out) {
  const float *a = s.a + i * kSegment, *b = s.b + i * kSegment;
  for_lanes(head.value_dim, [&](int64_t c, int64_t count) {
    F16 value = load_n(v + c, count), o = zero();
    if (!fresh) {
      value = value - load_n(s.predicted + i * head.value_dim + c, count);
      o = load_n(s.read + i * head.value_dim + c, count);
    }
    for (int64_t j = 0; j < i; ++j) {
      const F16 earlier = load_n(head.value(j) + c, count);
      value = fma(broadcast(-a[j]), earlier, value);
      o = fma(broadcast(b[j]), earlier, o);
    }
    value = value * broadcast(beta);
    store_n(head.value(i) + c, value, count);
    store_n(out + c, fma(broadcast(b[i]), value, o), count);
  });
}

// S0 <- S0 e^G_15 + sum_j v'_j (k~_j e^G_15 c)^T
NIBBLE_INLINE void fold(const Head& head, bool fresh) {
  const float* last = head.cumulative(kSegment - 1);
  for_lanes(head.key_dim, [&](int64_t c, int64_t count) {
    const F16 g = load_n(last + c, count);
    const F16 factor = exp(g), scaled = factor * broadcast(ops::kKdaScale);
    F16 key[kSegment];
    for (int64_t j = 0; j < kSegment; ++j) key[j] = load_n(head.key(j) + c, count) * scaled;
    for (int64_t v = 0; v < head.value_dim; ++v) {
      float* state = head.state + v * head.key_dim + c;
      F16 sum = fresh ? zero() : load_n(state, count) * factor;
      for (int64_t j = 0; j < kSegment; ++j) sum = fma(broadcast(head.value(j)[v]), key[j], sum);
      store_n(state, sum, count);
    }
  });
}

template <class T>
NIBBLE_INLINE void run_head(const ops::KdaRows& a, int64_t sequence, int64_t h, const Scratch& scratch) {
  const int64_t slot = a.sequences.slot.data[sequence] * a.heads + h;
  const int64_t width = 2 * a.key_dim + a.value_dim;
  const Head head = {a.key_dim, a.value_dim, width, a.state.data + slot * a.value_dim * a.key_dim,
                     a.records.data + slot * kSegment * width};
  int64_t t = a.sequences.row_begin.data[sequence], position = a.sequences.position.data[sequence];
  const int64_t end = a.sequences.row_begin.data[sequence + 1];
  while (t < end) {
    const int64_t first = position % kSegment, room = kSegment - first;
    const int64_t rows = end - t < room ? end - t : room, start = t - first;  // start: the row of position 0 mod 16
    const bool fresh = position < kSegment;
    for (int64_t i = first; i < first + rows; ++i) {
      enter_row(head, scratch, i, row<T>(a.q, start + i) + h * a.key_dim, row<T>(a.k, start + i) + h * a.key_dim,
                a.decay.row(start + i) + h * a.key_dim);
    }
    if (!fresh) read_state(head, scratch, first, first + rows);
    for (int64_t i = first; i < first + rows; ++i) {
      finish_row(head, scratch, i, fresh, row<T>(a.v, start + i) + h * a.value_dim, a.beta.row(start + i)[h],
                 row<T>(a.out, start + i) + h * a.value_dim);
    }
    if (first + rows == kSegment) fold(head, fresh);
    t += rows;
    position += rows;
  }
}

}  // namespace

// Heads outermost: a long prompt among single tokens is spread over all workers.
void kda_rows(Device& device, const ops::KdaRows& a) {
  with_dtype(a.q.dtype, [&]<class T>() {
    const int64_t sequences = a.sequences.slot.size;
    pool(device).parallel_for(a.heads * sequences, [&](int64_t begin, int64_t end, int worker) {
      float* slice =
          reinterpret_cast<float*>(a.scratch.data) + worker * ops::kda_rows_scratch_floats(a.key_dim, a.value_dim);
      const Scratch scratch(slice, a.key_dim, a.value_dim);
      for (int64_t item = begin; item < end; ++item) run_head<T>(a, item % sequences, item / sequences, scratch);
    });
  });
}

}  // namespace nibble::cpu::NIBBLE_ISA
