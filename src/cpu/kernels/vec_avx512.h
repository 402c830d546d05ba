// Native vectors of AVX-512: sixteen floats.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace nibble::cpu::NIBBLE_ISA {

using NativeF = __m512;
using NativeI = int32_t __attribute__((vector_size(64)));
constexpr int kNativeLanes = 16;

#define NIBBLE_INLINE [[gnu::always_inline]] inline

NIBBLE_INLINE NativeF native_load(const float* p) { return _mm512_loadu_ps(p); }
NIBBLE_INLINE void native_store(float* p, NativeF v) { _mm512_storeu_ps(p, v); }
NIBBLE_INLINE NativeF native_broadcast(float x) { return _mm512_set1_ps(x); }
NIBBLE_INLINE NativeF native_load_bf16(const uint16_t* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
NIBBLE_INLINE NativeF native_fma(NativeF a, NativeF b, NativeF c) { return _mm512_fmadd_ps(a, b, c); }
NIBBLE_INLINE NativeF native_max(NativeF a, NativeF b) { return _mm512_max_ps(a, b); }
NIBBLE_INLINE NativeF native_min(NativeF a, NativeF b) { return _mm512_min_ps(a, b); }
// Lanes 8 apart, then 4, 2 and 1.
NIBBLE_INLINE float native_sum(NativeF v) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

}  // namespace nibble::cpu::NIBBLE_ISA
