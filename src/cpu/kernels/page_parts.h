// What mla_attention does with one page of keys and values, for some queries at once: scores, their softmax within the
// page, the mix of the values, and the merge of pages in a fixed binary tree.
#pragma once

#include "cpu/kernels/products.h"
#include "ops/mla_scratch.h"

namespace nibble::cpu::NIBBLE_ISA {

// Keys and values of one page, fp32: row k of each is that of position 64 * page + k. Strides are whole vectors.
struct Page {
  const float* keys;
  int64_t key_stride, key_width;
  const float* values;
  int64_t value_stride, value_width;
};

// Subtrees of pages that wait for their like: for each query one of 1, 2, 4, ... pages, (value, max, sum) each.
struct Parts {
  float* data;
  int64_t width, levels;
  NIBBLE_INLINE float* at(int64_t query, int64_t level) const {
    return data + (query * levels + level) * ops::MlaScratch::part_stride(width);
  }
  NIBBLE_INLINE float* max_sum(int64_t query, int64_t level) const {
    return at(query, level) + ops::MlaScratch::rounded(width);
  }
};

// Where the subtree that page `index` completes is kept, as in a binary counter. Nothing waits there.
NIBBLE_INLINE int64_t level_of(int64_t index) { return __builtin_ctzll(~static_cast<uint64_t>(index)); }

// scores[q][k] = query q . key k, for the first `count` keys.
NIBBLE_INLINE void score_page(const Page& page, int64_t count, const float* queries, int64_t query_stride,
                              int64_t query_count, float* scores) {
  for (int64_t k = 0; k < count; k += kLanes) {
    const int64_t left = count - k;
    products({page.keys + k * page.key_stride, page.key_stride, left < kLanes ? left : kLanes}, queries, query_stride,
             query_count, page.key_width, scores + k, ops::kPageTokens);
  }
}

// scores[k] = e^(score * scale - max) for k < count, 0 past it.
NIBBLE_INLINE void soften(float* scores, int64_t count, float scale, float* max_sum) {
  float largest = -__builtin_inff();
  for (int64_t k = 0; k < count; ++k) {
    scores[k] = scores[k] * scale;
    largest = scores[k] > largest ? scores[k] : largest;
  }
  F16 total = zero();
  for (int64_t k = 0; k < ops::kPageTokens; k += kLanes) {
    const int64_t n = count - k;
    F16 p = zero();
    if (n > 0) p = exp(load_n(scores + k, n < kLanes ? n : kLanes) - broadcast(largest));
    store(scores + k, p);
    for (int64_t i = n > 0 ? n : kLanes; i < kLanes; ++i) scores[k + i] = 0.0f;
    total = total + load(scores + k);
  }
  max_sum[0] = largest;
  max_sum[1] = sum(total);
}

// value[d] = sum over keys, ascending, of p[k] * values[k][d], for N vectors of columns from d on and kQueries queries.
template <int kQueries, int N>
NIBBLE_INLINE void mix_tile(const Page& page, int64_t count, const float* p, const Parts& parts, int64_t level,
                            int64_t query, int64_t d) {
  F16 acc[kQueries][N];
#pragma GCC unroll 4
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) acc[q][n] = zero();
  }
  for (int64_t k = 0; k < count; ++k) {
    F16 value[N];
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) value[n] = load(page.values + k * page.value_stride + d + n * kLanes);
#pragma GCC unroll 4
    for (int q = 0; q < kQueries; ++q) {
      const F16 weight = broadcast(p[q * ops::kPageTokens + k]);
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) acc[q][n] = fma(weight, value[n], acc[q][n]);
    }
  }
#pragma GCC unroll 4
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) store(parts.at(query + q, level) + d + n * kLanes, acc[q][n]);
  }
}

// Queries [begin, end), which all see `count` keys.
NIBBLE_INLINE void mix_page(const Page& page, int64_t count, const float* scores, const Parts& parts, int64_t level,
                            int64_t begin, int64_t end) {
  constexpr int kWide = kParts == 1 ? 2 : 1;  // eight sums at once, enough to hide the latency of an addition
  const auto columns = [&]<int N>(int64_t d) __attribute__((always_inline)) {
    int64_t q = begin;
    for (; q + 4 <= end; q += 4) mix_tile<4, N>(page, count, scores + q * ops::kPageTokens, parts, level, q, d);
    for (; q < end; ++q) mix_tile<1, N>(page, count, scores + q * ops::kPageTokens, parts, level, q, d);
  };
  int64_t d = 0;
  for (; d + kWide * kLanes <= page.value_width; d += kWide * kLanes) columns.template operator()<kWide>(d);
  for (; d < page.value_width; d += kLanes) columns.template operator()<1>(d);
}

// into = earlier + into, as (value, max, sum).
NIBBLE_INLINE void merge(const Parts& parts, int64_t query, int64_t earlier, int64_t into) {
  const float *from = parts.at(query, earlier), *x = parts.max_sum(query, earlier);
  float *to = parts.at(query, into), *y = parts.max_sum(query, into);
  const float largest = x[0] > y[0] ? x[0] : y[0], keep[2] = {x[0] - largest, y[0] - largest};
  float factor[kLanes];
  store(factor, exp(load_head(keep, 2)));
  y[0] = largest;
  y[1] = x[1] * factor[0] + y[1] * factor[1];
  const F16 fx = broadcast(factor[0]), fy = broadcast(factor[1]);
  for_lanes(parts.width, [&](int64_t k, int64_t) { store(to + k, fma(load(from + k), fx, load(to + k) * fy)); });
}

// Page `index`, just put at its level: the smaller subtrees before it join it, the last one first.
NIBBLE_INLINE void carry(const Parts& parts, int64_t query, int64_t index) {
  for (int64_t level = 0; level < level_of(index); ++level) merge(parts, query, level, level_of(index));
}

// All `pages` pages of a query, merged from the smallest subtree up and divided by the sum.
NIBBLE_INLINE float* finish(const Parts& parts, int64_t query, int64_t pages) {
  const int64_t first = __builtin_ctzll(static_cast<uint64_t>(pages));
  for (int64_t level = first + 1; pages >> level != 0; ++level) {
    if ((pages >> level & 1) == 0) continue;
    merge(parts, query, level, first);
  }
  float* total = parts.at(query, first);
  const F16 sum = broadcast(parts.max_sum(query, first)[1]);
  for_lanes(parts.width, [&](int64_t k, int64_t) { store(total + k, load(total + k) / sum); });
  return total;
}

}  // namespace nibble::cpu::NIBBLE_ISA
