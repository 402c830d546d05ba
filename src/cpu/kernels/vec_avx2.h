// Native vectors of AVX2 with FMA: eight floats.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace nibble::cpu::NIBBLE_ISA {

using NativeF = __m256;
using NativeI = int32_t __attribute__((vector_size(32)));
constexpr int kNativeLanes = 8;

#define NIBBLE_INLINE [[gnu::always_inline]] inline

NIBBLE_INLINE NativeF native_load(const float* p) { return _mm256_loadu_ps(p); }
NIBBLE_INLINE void native_store(float* p, NativeF v) { _mm256_storeu_ps(p, v); }
NIBBLE_INLINE NativeF native_broadcast(float x) { return _mm256_set1_ps(x); }
NIBBLE_INLINE NativeF native_load_bf16(const uint16_t* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
NIBBLE_INLINE NativeF native_fma(NativeF a, NativeF b, NativeF c) { return _mm256_fmadd_ps(a, b, c); }
NIBBLE_INLINE NativeF native_max(NativeF a, NativeF b) { return _mm256_max_ps(a, b); }
NIBBLE_INLINE NativeF native_min(NativeF a, NativeF b) { return _mm256_min_ps(a, b); }
// Lanes 4 apart, then 2, then 1.
NIBBLE_INLINE float native_sum(NativeF v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

}  // namespace nibble::cpu::NIBBLE_ISA
