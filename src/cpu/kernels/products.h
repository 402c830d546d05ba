// Dot products of fp32 rows with fp32 rows that are in the caches: tiles of four rows by a few others. Each product
// runs in the canonical order of vec.h, so it does not matter how many come at once.
#pragma once

#include "cpu/kernels/kernel.h"

namespace nibble::cpu::NIBBLE_ISA {

constexpr int kProductRows = 4;
// With four rows these fill, and do not overflow, sixteen registers of AVX2; AVX-512 has thirty-two.
constexpr int kProductOthers = kParts == 1 ? 4 : 3;

// lanes[t][r] = the sixteen partial sums of a[r] . b_t, for n columns; b_t = b + t * b_stride.
template <int kOthers>
NIBBLE_INLINE void product_tile(const float* const (&a)[kProductRows], const float* b, int64_t b_stride, int64_t n,
                                float (*lanes)[kLanes][kLanes]) {
  const int64_t whole = n / kLanes * kLanes;
  for (int part = 0; part < kParts; ++part) {  // lanes are independent, so one native vector of them at a time
    const int64_t lane = part * kNativeLanes;
    NativeF acc[kOthers][kProductRows];
#pragma GCC unroll 4
    for (int t = 0; t < kOthers; ++t) {
#pragma GCC unroll 4
      for (int r = 0; r < kProductRows; ++r) acc[t][r] = native_broadcast(0.0f);
    }
    for (int64_t k = lane; k < whole; k += kLanes) {
      NativeF v[kOthers];
#pragma GCC unroll 4
      for (int t = 0; t < kOthers; ++t) v[t] = native_load(b + t * b_stride + k);
#pragma GCC unroll 4
      for (int r = 0; r < kProductRows; ++r) {
        NativeF w = native_load(a[r] + k);
        keep(w);
#pragma GCC unroll 4
        for (int t = 0; t < kOthers; ++t) acc[t][r] = native_fma(w, v[t], acc[t][r]);
      }
    }
#pragma GCC unroll 4
    for (int t = 0; t < kOthers; ++t) {
#pragma GCC unroll 4
      for (int r = 0; r < kProductRows; ++r) native_store(lanes[t][r] + lane, acc[t][r]);
    }
  }
  if (whole == n) return;
  for (int t = 0; t < kOthers; ++t) {
    const F16 v = load_head(b + t * b_stride + whole, n - whole);
    for (int r = 0; r < kProductRows; ++r) {
      store(lanes[t][r], fma(load_head(a[r] + whole, n - whole), v, load(lanes[t][r])));
    }
  }
}

// Rows of one matrix, `count` of them (1 to 16).
struct SixteenRows {
  const float* data;
  int64_t stride, count;
};

// out[t * out_stride + r] = a_r . b_t for r < a.count; the values of r past it mean nothing. `ahead(r)` is called
// before rows r .. r + 3 are read.
template <int kOthers, class F>
NIBBLE_INLINE void product_block(const SixteenRows& a, const float* b, int64_t b_stride, int64_t n, float* out,
                                 int64_t out_stride, const F& ahead) {
  float lanes[kOthers][kLanes][kLanes];
  const int64_t last = a.count - 1;
  for (int64_t r = 0; r < kLanes; r += kProductRows) {
    ahead(r);
    const auto of_tile = reinterpret_cast<float(*)[kLanes][kLanes]>(lanes[0] + r);
    if (r > last) {
      for (int t = 0; t < kOthers; ++t) __builtin_memset(of_tile[t], 0, kProductRows * sizeof(of_tile[t][0]));
      continue;
    }
    const float* rows[kProductRows];
    for (int64_t i = 0; i < kProductRows; ++i) rows[i] = a.data + (r + i < last ? r + i : last) * a.stride;
    product_tile<kOthers>(rows, b, b_stride, n, of_tile);
  }
  for (int t = 0; t < kOthers; ++t) native_sums(lanes[t][0], out + t * out_stride);
}

// The same for any number of b's.
NIBBLE_INLINE void products(const SixteenRows& a, const float* b, int64_t b_stride, int64_t others, int64_t n,
                            float* out, int64_t out_stride) {
  const auto some = [&]<int kOthers>(int64_t t) __attribute__((always_inline)) {
    product_block<kOthers>(a, b + t * b_stride, b_stride, n, out + t * out_stride, out_stride,
                           [](int64_t) __attribute__((always_inline)){});
  };
  int64_t t = 0;
  for (; t + kProductOthers <= others; t += kProductOthers) some.template operator()<kProductOthers>(t);
  for (; t + 2 <= others; t += 2) some.template operator()<2>(t);
  if (t < others) some.template operator()<1>(t);
}

}  // namespace nibble::cpu::NIBBLE_ISA
