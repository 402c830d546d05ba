// Each task takes one head of one sequence and walks its rows segment by segment. The rows of a segment that are in the
// step go together, so that S0 is read once for all of them; each number is nevertheless computed by the same
// operations in the same order as if they came one by one.
#include "ops/kda_rows.h"

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/kernels.h"
#include "cpu/kernels/products.h"

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

// A worker's slice of scratch; rows are counted from the segment's start, and have a key's and a query's part each.
struct Scratch {
  int64_t keys, values;  // widths in whole vectors
  float* plain;          // [16, 2, K] k e^G, q e^G
  float* scaled;         // [16, 2, K] k e^G c, q e^G c
  float* read;           // [16, 2, V] S0 (k e^G), S0 (q e^G)
  float* inner;          // [16, 2, 16] a, b
  [[gnu::always_inline]] Scratch(float* p, int64_t key_dim, int64_t value_dim)
      : keys((key_dim + kLanes - 1) / kLanes * kLanes),
        values((value_dim + kLanes - 1) / kLanes * kLanes),
        plain(p),
        scaled(plain + 2 * kSegment * keys),
        read(scaled + 2 * kSegment * keys),
        inner(read + 2 * kSegment * values) {}
};

// What q and k of a row are multiplied by.
struct Norms {
  float q, k;
};
template <class T>
NIBBLE_INLINE Norms norms(const T* q, const T* k, int64_t n) {
  const float k_norm = __builtin_sqrtf(dot(k, k, n) + 1e-6f), q_norm = __builtin_sqrtf(dot(q, q, n) + 1e-6f);
  return {1.0f / q_norm / __builtin_sqrtf(static_cast<float>(n)), 1.0f / k_norm};
}

// G and k~ of row i into its record, the other factors into scratch.
template <class T>
NIBBLE_INLINE void enter_row(const Head& head, const Scratch& s, int64_t i, const T* q, const T* k, const float* decay,
                             const Norms& norms) {
  const int64_t n = head.key_dim;
  const F16 k_scale = broadcast(norms.k), q_scale = broadcast(norms.q);
  float *cumulative = head.cumulative(i), *plain = s.plain + 2 * i * s.keys, *factors = s.scaled + 2 * i * s.keys;
  const float* before = i == 0 ? nullptr : head.cumulative(i - 1);
  for_lanes(n, [&](int64_t c, int64_t count) {
    const F16 key = load_n(k + c, count) * k_scale, query = load_n(q + c, count) * q_scale;
    const F16 g = (before == nullptr ? zero() : load_n(before + c, count)) + load_n(decay + c, count);
    const F16 factor = exp(g), scaled = factor * broadcast(ops::kKdaScale);
    store_n(cumulative + c, g, count);
    store_n(head.key(i) + c, key * (exp(zero() - g) * broadcast(1.0f / ops::kKdaScale)), count);
    store(plain + c, key * factor);
    store(plain + s.keys + c, query * factor);
    store(factors + c, key * scaled);
    store(factors + s.keys + c, query * scaled);
  });
}

// a and b of rows first .. end - 1: k~_j with k_i e^G_i c and q_i e^G_i c. Those of j > i mean nothing.
NIBBLE_INLINE void inner_products(const Head& head, const Scratch& s, int64_t first, int64_t end) {
  products({head.key(0), head.width, end}, s.scaled + 2 * first * s.keys, s.keys, 2 * (end - first), head.key_dim,
           s.inner + 2 * first * kSegment, kSegment);
}

// Asks for what the next head will read of two of its records, from `j` on. It lies after this head's.
NIBBLE_INLINE void prefetch_records(const Head& head, int64_t j) {
  for (int64_t i = j; i < j + 2; ++i) {
    const float* record = head.key(i + kSegment);
    for (int64_t c = 0; c < head.key_dim + head.value_dim; c += kLanes) __builtin_prefetch(record + c);
  }
}

// S0 (k e^G) and S0 (q e^G) of rows first .. end - 1: sixteen rows of S0, 8 KiB in K3, with all of them. `ahead(v)`
// asks for what is needed later.
template <class F>
NIBBLE_INLINE void read_state(const Head& head, const Scratch& s, int64_t first, int64_t end, const F& ahead) {
  for (int64_t v = 0; v < head.value_dim; v += kLanes) {
    ahead(v);
    const int64_t left = head.value_dim - v;
    const SixteenRows rows = {head.state + v * head.key_dim, head.key_dim, left < kLanes ? left : kLanes};
    if (end - first == 1) {  // memory is what a single row waits for
      if (v / 8 < first) prefetch_records(head, v / 8);
      product_block<2, true>(rows, s.plain + 2 * first * s.keys, s.keys, head.key_dim,
                             s.read + 2 * first * s.values + v, s.values);
      continue;
    }
    products(rows, s.plain + 2 * first * s.keys, s.keys, 2 * (end - first), head.key_dim,
             s.read + 2 * first * s.values + v, s.values);
  }
}

// Where values come from and go to: the head's first column in the first row at hand.
template <class T>
struct Columns {
  const T* v;
  int64_t v_stride;
  T* out;
  int64_t out_stride;
  const float* beta;
  int64_t beta_stride;
};

// v' and the output of rows first .. end - 1, in N vectors of columns from c on; count < 16 only with N = 1. `fresh`:
// S0 counts as zero.
template <int N, class T>
NIBBLE_INLINE void finish_columns(const Head& head, const Scratch& s, int64_t first, int64_t end, bool fresh,
                                  const Columns<T>& io, int64_t c, int64_t count) {
  for (int64_t i = first; i < end; ++i) {
    const float *a = s.inner + 2 * i * kSegment, *b = a + kSegment, *read = s.read + 2 * i * s.values + c;
    F16 value[N], o[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      value[n] = load_n(io.v + (i - first) * io.v_stride + c + n * kLanes, count);
      o[n] = zero();
      if (fresh) continue;
      value[n] = value[n] - load(read + n * kLanes);
      o[n] = load(read + s.values + n * kLanes);
    }
    for (int64_t j = 0; j < i; ++j) {
      const F16 minus_a = broadcast(-a[j]), b_j = broadcast(b[j]);
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) {
        const F16 earlier = load_n(head.value(j) + c + n * kLanes, count);
        value[n] = fma(minus_a, earlier, value[n]);
        o[n] = fma(b_j, earlier, o[n]);
      }
    }
    const F16 beta = broadcast(io.beta[(i - first) * io.beta_stride]), b_i = broadcast(b[i]);
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      value[n] = value[n] * beta;
      store_n(head.value(i) + c + n * kLanes, value[n], count);
      store_n(io.out + (i - first) * io.out_stride + c + n * kLanes, fma(b_i, value[n], o[n]), count);
    }
  }
}

template <class T>
NIBBLE_INLINE void finish_rows(const Head& head, const Scratch& s, int64_t first, int64_t end, bool fresh,
                               const Columns<T>& io) {
  constexpr int kWide = kParts == 1 ? 4 : 2;  // eight sums at once, enough to hide the latency of an addition
  int64_t c = 0;
  for (; c + kWide * kLanes <= head.value_dim; c += kWide * kLanes) {
    finish_columns<kWide>(head, s, first, end, fresh, io, c, kLanes);
  }
  for (; c < head.value_dim; c += kLanes) {
    const int64_t left = head.value_dim - c;
    finish_columns<1>(head, s, first, end, fresh, io, c, left < kLanes ? left : kLanes);
  }
}

// Rows v .. v + kRows - 1 of S0, as fold says; `key` and `factor` in scratch.
template <int kRows>
NIBBLE_INLINE void fold_rows(const Head& head, const Scratch& s, bool fresh, int64_t v) {
  const float *key = s.plain, *factor = s.scaled;
  for_lanes(head.key_dim, [&](int64_t c, int64_t count) {
    F16 sum[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      sum[r] = fresh ? zero() : load_n(head.state + (v + r) * head.key_dim + c, count) * load(factor + c);
    }
    for (int64_t j = 0; j < kSegment; ++j) {
      const F16 k = load(key + j * s.keys + c);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sum[r] = fma(broadcast(head.value(j)[v + r]), k, sum[r]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) store_n(head.state + (v + r) * head.key_dim + c, sum[r], count);
  });
}

// S0 <- S0 e^G_15 + sum_j v'_j (k~_j e^G_15 c)^T
NIBBLE_INLINE void fold(const Head& head, const Scratch& s, bool fresh) {
  constexpr int kRows = kParts == 1 ? 8 : 4;
  const float* last = head.cumulative(kSegment - 1);
  for_lanes(head.key_dim, [&](int64_t c, int64_t count) {
    const F16 factor = exp(load_n(last + c, count)), scaled = factor * broadcast(ops::kKdaScale);
    store(s.scaled + c, factor);
    for (int64_t j = 0; j < kSegment; ++j) store(s.plain + j * s.keys + c, load_n(head.key(j) + c, count) * scaled);
  });
  int64_t v = 0;
  for (; v + kRows <= head.value_dim; v += kRows) fold_rows<kRows>(head, s, fresh, v);
  for (; v < head.value_dim; ++v) fold_rows<1>(head, s, fresh, v);
}

template <class T>
NIBBLE_INLINE void prefetch(const T* p, int64_t count) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(p + i);
}

// Asks for what head h reads and writes of row t.
template <class T>
NIBBLE_INLINE void prefetch_row(const ops::KdaRows& a, int64_t t, int64_t h) {
  prefetch(row<T>(a.q, t) + h * a.key_dim, a.key_dim);
  prefetch(row<T>(a.k, t) + h * a.key_dim, a.key_dim);
  prefetch(a.decay.row(t) + h * a.key_dim, a.key_dim);
  prefetch(row<T>(a.v, t) + h * a.value_dim, a.value_dim);
  prefetch(row<T>(a.out, t) + h * a.value_dim, a.value_dim);
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
    const int64_t stop = first + rows;
    const auto q = [&](int64_t i) { return row<T>(a.q, start + i) + h * a.key_dim; };
    const auto k = [&](int64_t i) { return row<T>(a.k, start + i) + h * a.key_dim; };
    Norms scale[kSegment];  // of all rows first: a root takes long, but they do not wait for each other
    for (int64_t i = first; i < stop; ++i) scale[i] = norms(q(i), k(i), a.key_dim);
    for (int64_t i = first; i < stop; ++i) {
      enter_row(head, scratch, i, q(i), k(i), a.decay.row(start + i) + h * a.key_dim, scale[i]);
    }
    inner_products(head, scratch, first, stop);
    // The next segment's rows lie a page or more apart, where no processor looks by itself: two at a time.
    const auto ahead = [&](int64_t v) {
      const int64_t i = t + rows + v / kLanes * 2;
      for (int64_t next = i; next < i + 2 && next < end; ++next) prefetch_row<T>(a, next, h);
    };
    if (!fresh) read_state(head, scratch, first, stop, ahead);
    const Columns<T> io = {row<T>(a.v, t) + h * a.value_dim,
                           a.v.stride,
                           row<T>(a.out, t) + h * a.value_dim,
                           a.out.stride,
                           a.beta.row(t) + h,
                           a.beta.stride};
    finish_rows(head, scratch, first, stop, fresh, io);
    if (stop == kSegment) fold(head, scratch, fresh);
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
