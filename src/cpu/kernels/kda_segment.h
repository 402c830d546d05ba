// What the rows of a segment have in common, however S0 is read: one head's records, the factors of its rows, a and b,
// and the values that come out. Names are those of ops/kda_rows.h.
#pragma once

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/products.h"
#include "ops/kda_rows.h"

namespace nibble::cpu::NIBBLE_ISA {

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

// A worker's slice of scratch; rows are counted from the first one at hand, and have a key's and a query's part each.
struct Scratch {
  int64_t keys, values;  // widths in whole vectors
  float* plain;          // [16, 2, K] k e^G, q e^G
  float* scaled;         // [16, 2, K] k e^G c, q e^G c
  float* read;           // [16, 2, V] S0 (k e^G), S0 (q e^G)
  float* inner;          // [16, 2, 16] a, b
  float* folded;         // [16, K] k~ e^G_15 c
  float* factor;         // [K] e^G_15
  float* turned;         // [V / 16, K, 16] S0
  [[gnu::always_inline]] Scratch(float* p, int64_t key_dim, int64_t value_dim)
      : keys((key_dim + kLanes - 1) / kLanes * kLanes),
        values((value_dim + kLanes - 1) / kLanes * kLanes),
        plain(p),
        scaled(plain + 2 * kSegment * keys),
        read(scaled + 2 * kSegment * keys),
        inner(read + 2 * kSegment * values),
        folded(scaled),  // which nothing reads once rows have entered
        factor(folded + kSegment * keys),
        turned(inner + 2 * kSegment * kSegment) {}
  // The same with `row` as the first one.
  [[gnu::always_inline]] Scratch from(int64_t row) const {
    Scratch out = *this;
    out.plain += 2 * row * keys;
    out.scaled += 2 * row * keys;
    out.read += 2 * row * values;
    out.inner += 2 * row * kSegment;
    return out;
  }
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

// G and k~ of row i of the segment into its record, the other factors into row `at` of scratch.
template <class T>
NIBBLE_INLINE void enter_row(const Head& head, const Scratch& s, int64_t i, int64_t at, const T* q, const T* k,
                             const float* decay, const Norms& norms) {
  const int64_t n = head.key_dim;
  const F16 k_scale = broadcast(norms.k), q_scale = broadcast(norms.q);
  float *cumulative = head.cumulative(i), *plain = s.plain + 2 * at * s.keys, *factors = s.scaled + 2 * at * s.keys;
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
  constexpr int64_t kRows = kProductOthers % 2 == 0 ? kProductOthers / 2 : kProductOthers;  // whole tiles
  for (int64_t i = first; i < end; i += kRows) {
    const int64_t rows = end - i < kRows ? end - i : kRows;
    products({head.key(0), head.width, i + rows}, s.scaled + 2 * (i - first) * s.keys, s.keys, 2 * rows, head.key_dim,
             s.inner + 2 * (i - first) * kSegment, kSegment);
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
    const float *a = s.inner + 2 * (i - first) * kSegment, *b = a + kSegment;
    const float* read = s.read + 2 * (i - first) * s.values + c;
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

// e^G_15, and each k~_j e^G_15 c.
NIBBLE_INLINE void fold_factors(const Head& head, const Scratch& s) {
  const float* last = head.cumulative(kSegment - 1);
  for_lanes(head.key_dim, [&](int64_t c, int64_t count) {
    const F16 whole = exp(load_n(last + c, count)), scaled = whole * broadcast(ops::kKdaScale);
    store(s.factor + c, whole);
    for (int64_t j = 0; j < kSegment; ++j) store(s.folded + j * s.keys + c, load_n(head.key(j) + c, count) * scaled);
  });
}

// A tile of S0: row i, vector n, of `count` lanes (less than 16 with one vector only), is at data + i * row + n * step.
struct StateTile {
  float* data;
  int64_t row, step, count;
};

// s <- s scale(i, n) + sum_j each_j[i] wide_j[n] over a segment, j ascending: sixteen sums take eight loads a j.
// `fresh`: S0 counts as zero.
template <int kRows, int kBlocks, class F>
NIBBLE_INLINE void fold_tile(const StateTile& s, bool fresh, const float* each, int64_t each_stride, const float* wide,
                             int64_t wide_stride, const F& scale) {
  F16 sum[kRows][kBlocks];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int n = 0; n < kBlocks; ++n) {
      sum[i][n] = fresh ? zero() : load_n(s.data + i * s.row + n * s.step, s.count) * scale(i, n);
    }
  }
  for (int64_t j = 0; j < kSegment; ++j) {
    F16 vector[kBlocks];
#pragma GCC unroll 4
    for (int n = 0; n < kBlocks; ++n) vector[n] = load(wide + j * wide_stride + n * kLanes);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      const F16 x = broadcast(each[j * each_stride + i]);
#pragma GCC unroll 4
      for (int n = 0; n < kBlocks; ++n) sum[i][n] = fma(x, vector[n], sum[i][n]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int n = 0; n < kBlocks; ++n) store_n(s.data + i * s.row + n * s.step, sum[i][n], s.count);
  }
}

}  // namespace nibble::cpu::NIBBLE_ISA
