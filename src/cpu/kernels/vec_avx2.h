// Native vectors of AVX2 with FMA: eight floats.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace nibble::cpu::NIBBLE_ISA {

using NativeF = __m256;
using NativeI = int32_t __attribute__((vector_size(32)));
constexpr int64_t kNativeLanes = 8;

#define NIBBLE_INLINE [[gnu::always_inline]] inline

NIBBLE_INLINE NativeF native_load(const float* p) { return _mm256_loadu_ps(p); }
NIBBLE_INLINE void native_store(float* p, NativeF v) { _mm256_storeu_ps(p, v); }
NIBBLE_INLINE NativeF native_broadcast(float x) { return _mm256_set1_ps(x); }
NIBBLE_INLINE NativeF native_load_bf16(const uint16_t* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
// Signed bytes as integers, none past the eighth.
NIBBLE_INLINE NativeI native_load_s8(const uint8_t* p) {
  return __builtin_bit_cast(NativeI, _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
NIBBLE_INLINE NativeF native_to_float(NativeI v) { return _mm256_cvtepi32_ps(__builtin_bit_cast(__m256i, v)); }
// Sixteen nibbles of eight bytes, low nibble first, looked up in a table of sixteen integers, times `scale`.
NIBBLE_INLINE void native_lookup_nibbles(const uint8_t* p, const int8_t* table, float scale, NativeF* out) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)), mask = _mm_set1_epi8(15);
  const __m128i codes = _mm_unpacklo_epi8(_mm_and_si128(bytes, mask), _mm_and_si128(_mm_srli_epi16(bytes, 4), mask));
  const __m128i values = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)), codes);
  const __m256 factor = _mm256_set1_ps(scale);
  out[0] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(values)) * factor;
  out[1] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(values, values))) * factor;
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
// The sum of each of eight rows of eight lanes: lanes 4 apart, then 2, then 1, of all rows together.
NIBBLE_INLINE __m256 native_sums_of_eight(const __m256 (&eight)[8]) {
  __m256 four[4];
  for (int r = 0; r < 4; ++r) {  // rows r and r + 4
    four[r] = _mm256_add_ps(_mm256_permute2f128_ps(eight[r], eight[r + 4], 0x20),
                            _mm256_permute2f128_ps(eight[r], eight[r + 4], 0x31));
  }
  const auto halve = [](__m256 a, __m256 b) __attribute__((always_inline)) {
    const __m256d x = _mm256_castps_pd(a), y = _mm256_castps_pd(b);
    return _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(x, y)), _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)));
  };
  const __m256 a = halve(four[0], four[1]), b = halve(four[2], four[3]);
  return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xDD));
}
// The sums of sixteen vectors of sixteen lanes, each in the order of `sum`.
NIBBLE_INLINE void native_sums(const float* rows, float* out) {
  for (int g = 0; g < 16; g += 8) {
    __m256 eight[8];
    for (int r = 0; r < 8; ++r) {
      eight[r] = _mm256_add_ps(_mm256_loadu_ps(rows + (g + r) * 16), _mm256_loadu_ps(rows + (g + r) * 16 + 8));
    }
    _mm256_storeu_ps(out + g, native_sums_of_eight(eight));
  }
}

// Lanes of sixteen columns in orders that come out of the weights' bytes for nothing (vec.h).
#define NIBBLE_SPLIT_ORDER
#define NIBBLE_NIBBLE_ORDER

// Sixteen bf16 columns, even | odd.
NIBBLE_INLINE void native_load_split(const uint16_t* p, NativeF* out) {
  const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  out[0] = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
  out[1] = _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(-0x10000)));
}
// One half of that, for loops that have no register left: the mask stays in memory, whatever gcc thinks of it.
alignas(32) static constexpr int32_t kOddOfPair[8] = {-0x10000, -0x10000, -0x10000, -0x10000,
                                                      -0x10000, -0x10000, -0x10000, -0x10000};
NIBBLE_INLINE NativeF native_load_split_part(const uint16_t* p, int part) {
  __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  if (part == 0) return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
  asm("vpand %1, %0, %0" : "+x"(pairs) : "m"(kOddOfPair));
  return _mm256_castsi256_ps(pairs);
}
NIBBLE_INLINE void native_to_split(const NativeF* natural, NativeF* out) {
  const __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(natural[0], natural[1], 0x88));
  const __m256d odd = _mm256_castps_pd(_mm256_shuffle_ps(natural[0], natural[1], 0xDD));
  out[0] = _mm256_castpd_ps(_mm256_permute4x64_pd(even, 0xD8));
  out[1] = _mm256_castpd_ps(_mm256_permute4x64_pd(odd, 0xD8));
}
// The sum of vec.h over lanes in either order: pairs 8 apart, 4, 2, 1.
NIBBLE_INLINE float native_sum_split(const NativeF* v) {
  const __m128 even = _mm_add_ps(_mm256_castps256_ps128(v[0]), _mm256_extractf128_ps(v[0], 1));
  const __m128 odd = _mm_add_ps(_mm256_castps256_ps128(v[1]), _mm256_extractf128_ps(v[1], 1));
  const __m128 four = _mm_add_ps(_mm_movelh_ps(even, odd), _mm_movehl_ps(odd, even));  // 0 2 | 1 3
  const __m128 two = _mm_add_ps(four, _mm_movehdup_ps(four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehl_ps(two, two)));
}
// Sixteen of those.
NIBBLE_INLINE void native_sums_split(const float* rows, float* out) {
  for (int g = 0; g < 16; g += 8) {
    __m256 even[8], odd[8];
    for (int r = 0; r < 8; ++r) {
      even[r] = _mm256_loadu_ps(rows + (g + r) * 16);
      odd[r] = _mm256_loadu_ps(rows + (g + r) * 16 + 8);
    }
    _mm256_storeu_ps(out + g, _mm256_add_ps(native_sums_of_eight(even), native_sums_of_eight(odd)));
  }
}
// 0 4 8 12 1 5 9 13 | 2 6 10 14 3 7 11 15: what a shift and a mask make of nibbles that were looked up as bf16.
NIBBLE_INLINE void native_to_nibble(const NativeF* natural, NativeF* out) {
  __m128 a = _mm256_castps256_ps128(natural[0]), b = _mm256_extractf128_ps(natural[0], 1);
  __m128 c = _mm256_castps256_ps128(natural[1]), d = _mm256_extractf128_ps(natural[1], 1);
  _MM_TRANSPOSE4_PS(a, b, c, d);
  out[0] = _mm256_set_m128(b, a);
  out[1] = _mm256_set_m128(d, c);
}
NIBBLE_INLINE float native_sum_nibble(const NativeF* v) {
  const __m256 eight = _mm256_add_ps(_mm256_shuffle_ps(v[0], v[1], 0x44), _mm256_shuffle_ps(v[0], v[1], 0xEE));
  const __m256 four = _mm256_add_ps(eight, _mm256_movehdup_ps(eight));  // 0 . 2 . | 1 . 3 .
  const __m256 two = _mm256_add_ps(four, _mm256_shuffle_ps(four, four, 0x4E));
  return _mm_cvtss_f32(_mm_add_ss(_mm256_castps256_ps128(two), _mm256_extractf128_ps(two, 1)));
}
// Of sixteen rows.
NIBBLE_INLINE void native_sums_nibble(const float* rows, float* out) {
  for (int r = 0; r < 16; ++r) {
    const NativeF lanes[2] = {native_load(rows + 16 * r), native_load(rows + 16 * r + 8)};
    out[r] = native_sum_nibble(lanes);
  }
}
// What sixteen codes stand for, bf16 numbers: their upper bytes, then their lower ones.
struct NativeCodes {
  uint8_t byte[32];
  constexpr void set(int code, float value) {
    byte[code] = static_cast<uint8_t>(to_bf16(value).bits >> 8);
    byte[16 + code] = static_cast<uint8_t>(to_bf16(value).bits & 0xFF);
  }
};
// Sixteen bytes of nibbles, thirty-two columns, as words: columns 0 .. 15 looked up in `first` and 16 .. 31 in
// `second`, even in one half and odd in the other. With one table for both, each lookup is made once.
struct NativeWords {
  __m256i half[2];
};
NIBBLE_INLINE NativeWords native_lookup_words(const uint8_t* p, const NativeCodes& first, const NativeCodes& second) {
  const auto twice = [](const uint8_t* bytes) __attribute__((always_inline)) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
  };
  const __m256i codes =
      _mm256_and_si256(_mm256_srlv_epi64(twice(p), _mm256_set_epi64x(4, 4, 0, 0)), _mm256_set1_epi8(15));
  const auto upper = [&](const NativeCodes& of) __attribute__((always_inline)) {
    return _mm256_shuffle_epi8(twice(of.byte), codes);
  };
  const auto lower = [&](const NativeCodes& of) __attribute__((always_inline)) {
    return _mm256_shuffle_epi8(twice(of.byte + 16), codes);
  };
  return {{_mm256_unpacklo_epi8(lower(first), upper(first)), _mm256_unpackhi_epi8(lower(second), upper(second))}};
}
// Sixteen bytes in that order, each the top one of an integer; what is below is others' bytes.
NIBBLE_INLINE void native_bytes_to_nibble(const uint8_t* p, NativeI* out) {
  const __m256i twice = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  out[0] = __builtin_bit_cast(NativeI, _mm256_sllv_epi32(twice, _mm256_setr_epi32(24, 24, 24, 24, 16, 16, 16, 16)));
  out[1] = __builtin_bit_cast(NativeI, _mm256_sllv_epi32(twice, _mm256_setr_epi32(8, 8, 8, 8, 0, 0, 0, 0)));
}
// Thirty-two columns as floats, sixteen to each of first and second, in Order::kNibble or kSplit.
NIBBLE_INLINE void native_lookup_nibble(const uint8_t* p, const NativeCodes& first_codes,
                                        const NativeCodes& second_codes, NativeF* first, NativeF* second) {
  const NativeWords words = native_lookup_words(p, first_codes, second_codes);
  for (int i = 0; i < 2; ++i) {
    NativeF* out = i == 0 ? first : second;
    out[0] = _mm256_castsi256_ps(_mm256_slli_epi32(words.half[i], 16));
    out[1] = _mm256_castsi256_ps(_mm256_and_si256(words.half[i], _mm256_set1_epi32(-0x10000)));
  }
}
NIBBLE_INLINE void native_lookup_split(const uint8_t* p, const NativeCodes& first_codes,
                                       const NativeCodes& second_codes, NativeF* first, NativeF* second) {
  const NativeWords words = native_lookup_words(p, first_codes, second_codes);
  const auto widen = [](__m128i half) __attribute__((always_inline)) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  };
  for (int i = 0; i < 2; ++i) {
    NativeF* out = i == 0 ? first : second;
    out[0] = widen(_mm256_castsi256_si128(words.half[i]));
    out[1] = widen(_mm256_extracti128_si256(words.half[i], 1));
  }
}
// Nearest, ties to even, NaN quiet: to_bf16 on eight lanes.
NIBBLE_INLINE void native_store_bf16(uint16_t* p, NativeF v) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(high, high), 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
}

}  // namespace nibble::cpu::NIBBLE_ISA
