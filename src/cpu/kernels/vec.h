// The vector vocabulary that kernel bodies are written in: sixteen lanes on every instruction set.
//
// Sixteen is the canonical width: a sum over K goes to lane k mod 16, ascending, and the lanes are added in one fixed
// tree, so one row and five hundred, one thread and many, give the same bits. The files in this folder are compiled
// once per instruction set, each time with NIBBLE_ISA naming a namespace; to keep one set's code from leaking into
// another's through the linker they include nothing that could emit a weak symbol: no standard library templates, and
// every helper is always inlined. tools/check_isa_symbols.sh holds them to it.
#pragma once

#include <cstdint>

#include "base/bf16.h"

#if defined(__AVX512F__)
#include "cpu/kernels/vec_avx512.h"
#elif defined(__AVX2__)
#include "cpu/kernels/vec_avx2.h"
#else
#include "cpu/kernels/vec_portable.h"
#endif

namespace nibble::cpu::NIBBLE_ISA {

constexpr int64_t kLanes = 16;
constexpr int kParts = static_cast<int>(kLanes / kNativeLanes);

struct F16 {
  NativeF part[kParts];
};

NIBBLE_INLINE F16 broadcast(float x) {
  F16 r;
  for (int i = 0; i < kParts; ++i) r.part[i] = native_broadcast(x);
  return r;
}
NIBBLE_INLINE F16 zero() { return broadcast(0.0f); }
NIBBLE_INLINE F16 load(const float* p) {
  F16 r;
  for (int i = 0; i < kParts; ++i) r.part[i] = native_load(p + i * kNativeLanes);
  return r;
}
NIBBLE_INLINE F16 load(const Bf16* p) {
  F16 r;
  const auto* bits = reinterpret_cast<const uint16_t*>(p);
  for (int i = 0; i < kParts; ++i) r.part[i] = native_load_bf16(bits + i * kNativeLanes);
  return r;
}
NIBBLE_INLINE void store(float* p, F16 v) {
  for (int i = 0; i < kParts; ++i) native_store(p + i * kNativeLanes, v.part[i]);
}
// The landing: nearest, ties to even.
NIBBLE_INLINE void store(Bf16* p, F16 v) {
  auto* bits = reinterpret_cast<uint16_t*>(p);
  for (int i = 0; i < kParts; ++i) native_store_bf16(bits + i * kNativeLanes, v.part[i]);
}
// The first `count` (< 16) elements; the other lanes are 0, and nothing past them is touched.
template <class T>
NIBBLE_INLINE F16 load_head(const T* p, int64_t count) {
  float lane[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (sizeof(T) == 2)
      lane[i] = to_float(p[i]);
    else
      lane[i] = p[i];
  }
  return load(lane);
}
template <class T>
NIBBLE_INLINE void store_head(T* p, F16 v, int64_t count) {
  float lane[kLanes];
  store(lane, v);
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (sizeof(T) == 2)
      p[i] = to_bf16(lane[i]);
    else
      p[i] = lane[i];
  }
}

NIBBLE_INLINE F16 operator+(F16 a, F16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = a.part[i] + b.part[i];
  return a;
}
NIBBLE_INLINE F16 operator-(F16 a, F16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = a.part[i] - b.part[i];
  return a;
}
NIBBLE_INLINE F16 operator*(F16 a, F16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = a.part[i] * b.part[i];
  return a;
}
NIBBLE_INLINE F16 operator/(F16 a, F16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = a.part[i] / b.part[i];
  return a;
}
// a * b + c; rounded once where the instruction set has FMA.
NIBBLE_INLINE F16 fma(F16 a, F16 b, F16 c) {
  for (int i = 0; i < kParts; ++i) a.part[i] = native_fma(a.part[i], b.part[i], c.part[i]);
  return a;
}
NIBBLE_INLINE F16 max(F16 a, F16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = native_max(a.part[i], b.part[i]);
  return a;
}
NIBBLE_INLINE F16 min(F16 a, F16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = native_min(a.part[i], b.part[i]);
  return a;
}

// The canonical tree: lanes 8 apart, then 4, 2, 1.
NIBBLE_INLINE float sum(F16 v) {
  for (int half = kParts / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) v.part[i] = v.part[i] + v.part[i + half];
  }
  return native_sum(v.part[0]);
}

// Holds a vector in a register from here on: left alone, gcc may load it from memory at each use.
template <class Vector>
NIBBLE_INLINE void keep(Vector& v) {
#if defined(__AVX512F__)
  asm("" : "+v"(v));
#elif defined(__AVX2__)
  asm("" : "+x"(v));
#else
  static_cast<void>(v);
#endif
}

// Which of sixteen columns lies in which lane while a dot runs. Sums come out the same in any of them: they only save
// the shuffles that would put columns side by side again.
enum class Order : uint8_t {
  kNatural,
  kSplit,   // even columns, then odd ones: what a shift and a mask make of pairs of bf16
  kNibble,  // 0 4 8 12 1 5 9 13, 2 6 10 14 3 7 11 15: what they make of nibbles that were looked up as bf16,
            // and of bytes in integers
};
#ifdef NIBBLE_FREE_ORDERS
constexpr bool kFreeOrders = true;

// Sixteen bf16 columns in Order::kSplit.
NIBBLE_INLINE F16 load_split(const Bf16* p) {
  F16 r;
  native_load_split(reinterpret_cast<const uint16_t*>(p), r.part);
  return r;
}
NIBBLE_INLINE NativeF load_split_part(const Bf16* p, int part) {
  return native_load_split_part(reinterpret_cast<const uint16_t*>(p), part);
}
template <Order kOrder>
NIBBLE_INLINE F16 from_natural(F16 v) {
  if constexpr (kOrder == Order::kNatural) return v;
  F16 r;
  if constexpr (kOrder == Order::kSplit) {
    native_to_split(v.part, r.part);
  } else {
    constexpr int kColumn[kLanes] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    float column[kLanes], lane[kLanes];
    store(column, v);
    for (int64_t i = 0; i < kLanes; ++i) lane[i] = column[kColumn[i]];
    r = load(lane);
  }
  return r;
}
template <Order kOrder>
NIBBLE_INLINE float sum(F16 v) {
  if constexpr (kOrder == Order::kNatural) return sum(v);
  return kOrder == Order::kSplit ? native_sum_split(v.part) : native_sum_nibble(v.part);
}
// The sums of sixteen rows of sixteen lanes.
template <Order kOrder>
NIBBLE_INLINE void sums(const float* rows, float* out) {
  static_assert(kOrder != Order::kNibble);
  if constexpr (kOrder == Order::kNatural)
    native_sums(rows, out);
  else
    native_sums_split(rows, out);
}
#else
constexpr bool kFreeOrders = false;

template <Order kOrder>
NIBBLE_INLINE F16 from_natural(F16 v) {
  static_assert(kOrder == Order::kNatural);
  return v;
}
template <Order kOrder>
NIBBLE_INLINE float sum(F16 v) {
  static_assert(kOrder == Order::kNatural);
  return sum(v);
}
template <Order kOrder>
NIBBLE_INLINE void sums(const float* rows, float* out) {
  static_assert(kOrder == Order::kNatural);
  native_sums(rows, out);
}
#endif

// The canonical dot product of n elements.
template <class A, class B>
NIBBLE_INLINE float dot(const A* a, const B* b, int64_t n) {
  F16 acc = zero();
  int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes) acc = fma(load(a + k), load(b + k), acc);
  if (k < n) acc = fma(load_head(a + k, n - k), load_head(b + k, n - k), acc);
  return sum(acc);
}

}  // namespace nibble::cpu::NIBBLE_ISA
