// Native vectors where no instruction set is assumed: four floats, as gcc's vector extension lowers them anywhere.
#pragma once

#include <cstdint>

#include "base/bf16.h"

namespace nibble::cpu::NIBBLE_ISA {

using NativeF = float __attribute__((vector_size(16)));
using NativeI = int32_t __attribute__((vector_size(16)));
constexpr int64_t kNativeLanes = 4;

#define NIBBLE_INLINE [[gnu::always_inline]] inline

NIBBLE_INLINE NativeF native_load(const float* p) {
  NativeF v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
NIBBLE_INLINE void native_store(float* p, NativeF v) { __builtin_memcpy(p, &v, sizeof v); }
NIBBLE_INLINE NativeF native_broadcast(float x) { return NativeF{x, x, x, x}; }
NIBBLE_INLINE NativeF native_load_bf16(const uint16_t* p) {
  const NativeI bits = {p[0] << 16, p[1] << 16, p[2] << 16, p[3] << 16};
  return __builtin_bit_cast(NativeF, bits);
}
// Signed bytes as integers, none past the fourth.
NIBBLE_INLINE NativeI native_load_s8(const uint8_t* p) {
  const auto wide = [p](int i) __attribute__((always_inline)) {
    return static_cast<int32_t>(static_cast<int8_t>(p[i]));
  };
  return NativeI{wide(0), wide(1), wide(2), wide(3)};
}
NIBBLE_INLINE NativeF native_to_float(NativeI v) { return __builtin_convertvector(v, NativeF); }
// Sixteen nibbles of eight bytes, low nibble first, looked up in a table of sixteen integers, times `scale`.
NIBBLE_INLINE void native_lookup_nibbles(const uint8_t* p, const int8_t* table, float scale, NativeF* out) {
  for (int i = 0; i < 4; ++i, p += 2) {
    out[i] = native_to_float(NativeI{table[p[0] & 15], table[p[0] >> 4], table[p[1] & 15], table[p[1] >> 4]}) * scale;
  }
}
NIBBLE_INLINE NativeF native_fma(NativeF a, NativeF b, NativeF c) { return a * b + c; }  // two roundings here
NIBBLE_INLINE NativeF native_max(NativeF a, NativeF b) { return a > b ? a : b; }
NIBBLE_INLINE NativeF native_min(NativeF a, NativeF b) { return a < b ? a : b; }
NIBBLE_INLINE float native_sum(NativeF v) { return (v[0] + v[2]) + (v[1] + v[3]); }  // 2 apart, then 1
// The sums of sixteen vectors of sixteen lanes, each in the order of `sum`.
NIBBLE_INLINE void native_sums(const float* rows, float* out) {
  for (int r = 0; r < 16; ++r, rows += 16) {
    const NativeF a = native_load(rows) + native_load(rows + 8), b = native_load(rows + 4) + native_load(rows + 12);
    out[r] = native_sum(a + b);
  }
}

NIBBLE_INLINE void native_store_bf16(uint16_t* p, NativeF v) {
  for (int i = 0; i < 4; ++i) p[i] = to_bf16(v[i]).bits;
}

}  // namespace nibble::cpu::NIBBLE_ISA
