// Native vectors of AVX-512: sixteen floats.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace nibble::cpu::NIBBLE_ISA {

using NativeF = __m512;
using NativeI = int32_t __attribute__((vector_size(64)));
constexpr int64_t kNativeLanes = 16;

#define NIBBLE_INLINE [[gnu::always_inline]] inline

NIBBLE_INLINE NativeF native_load(const float* p) { return _mm512_loadu_ps(p); }
NIBBLE_INLINE void native_store(float* p, NativeF v) { _mm512_storeu_ps(p, v); }
NIBBLE_INLINE NativeF native_broadcast(float x) { return _mm512_set1_ps(x); }
NIBBLE_INLINE NativeF native_load_bf16(const uint16_t* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
// Signed bytes as integers, none past the sixteenth.
NIBBLE_INLINE NativeI native_load_s8(const uint8_t* p) {
  return __builtin_bit_cast(NativeI, _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
NIBBLE_INLINE NativeF native_to_float(NativeI v) { return _mm512_cvtepi32_ps(__builtin_bit_cast(__m512i, v)); }
// Sixteen nibbles of eight bytes, low nibble first, looked up in a table of sixteen integers, times `scale`.
NIBBLE_INLINE void native_lookup_nibbles(const uint8_t* p, const int8_t* table, float scale, NativeF* out) {
  const __m512i integers = _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  const __m512 values = _mm512_mul_ps(_mm512_cvtepi32_ps(integers), _mm512_set1_ps(scale));
  // One byte a 64-bit lane, its nibbles in the low bits of either half; the lookup ignores what is above them.
  const __m512i bytes = _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  out[0] = _mm512_permutexvar_ps(_mm512_or_si512(bytes, _mm512_slli_epi64(bytes, 28)), values);
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
// The sums of sixteen vectors of sixteen lanes, each in the order of `sum`: the lanes of all rows halve together.
NIBBLE_INLINE void native_sums(const float* rows, float* out) {
  __m512 eight[8], four[4];
  for (int r = 0; r < 8; ++r) {  // rows n and n + 4
    const int n = r < 4 ? r : r + 4;
    const __m512 a = _mm512_loadu_ps(rows + n * 16), b = _mm512_loadu_ps(rows + (n + 4) * 16);
    eight[r] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
  }
  for (int r = 0; r < 4; ++r) {  // rows r, r + 4, r + 8 and r + 12
    four[r] = _mm512_add_ps(_mm512_shuffle_f32x4(eight[r], eight[r + 4], 0x88),
                            _mm512_shuffle_f32x4(eight[r], eight[r + 4], 0xDD));
  }
  const auto halve = [](__m512 a, __m512 b) __attribute__((always_inline)) {
    const __m512d x = _mm512_castps_pd(a), y = _mm512_castps_pd(b);
    return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)), _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
  };
  const __m512 a = halve(four[0], four[1]), b = halve(four[2], four[3]);
  _mm512_storeu_ps(out, _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xDD)));
}

// An order of lanes that comes out of the weights' bytes for nothing (vec.h): 0 8 1 9 2 10 3 11 4 12 5 13 6 14 7 15,
// eight bytes in each 64-bit lane, and each half of it shifted to its nibble.
#define NIBBLE_NIBBLE_ORDER

NIBBLE_INLINE void native_to_nibble(const NativeF* natural, NativeF* out) {
  const __m512i from = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
  out[0] = _mm512_permutexvar_ps(from, natural[0]);
}
// What sixteen codes stand for.
struct alignas(64) NativeCodes {
  float value[16];
  constexpr void set(int code, float to) { value[code] = to; }
};
// Sixteen bytes of nibbles, thirty-two columns, sixteen to each of first and second.
NIBBLE_INLINE void native_lookup_nibble(const uint8_t* p, const NativeCodes& first_codes,
                                        const NativeCodes& second_codes, NativeF* first, NativeF* second) {
  const __m512i shifts = _mm512_setr_epi32(0, 0, 4, 4, 8, 8, 12, 12, 16, 16, 20, 20, 24, 24, 28, 28);
  for (int i = 0; i < 2; ++i) {
    const __m512 values = _mm512_load_ps((i == 0 ? first_codes : second_codes).value);
    long long eight;
    __builtin_memcpy(&eight, p + 8 * i, 8);
    const __m512i nibbles = _mm512_srlv_epi32(_mm512_set1_epi64(eight), shifts);  // a lookup ignores what is above
    *(i == 0 ? first : second) = _mm512_permutexvar_ps(nibbles, values);
  }
}
// Sixteen bytes in that order, each the top one of an integer; zeros below.
NIBBLE_INLINE void native_bytes_to_nibble(const uint8_t* p, NativeI* out) {
  const __m512i from =
      _mm512_setr_epi32(0x00808080, 0x08808080, 0x01808080, 0x09808080, 0x02808080, 0x0A808080, 0x03808080, 0x0B808080,
                        0x04808080, 0x0C808080, 0x05808080, 0x0D808080, 0x06808080, 0x0E808080, 0x07808080, 0x0F808080);
  const __m512i bytes = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  out[0] = __builtin_bit_cast(NativeI, _mm512_shuffle_epi8(bytes, from));
}
// The sum of vec.h over lanes in that order: lanes 8 apart are side by side, those 4 apart 8.
NIBBLE_INLINE float native_sum_nibble(const NativeF* v) {
  const __m512 eight = _mm512_add_ps(v[0], _mm512_movehdup_ps(v[0]));
  const __m256 four = _mm256_add_ps(_mm512_castps512_ps256(eight), _mm512_extractf32x8_ps(eight, 1));
  const __m128 two = _mm_add_ps(_mm256_castps256_ps128(four), _mm256_extractf128_ps(four, 1));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehl_ps(two, two)));
}
// Sixteen of those: pairs of rows first, so that each has two of its eight sums in every 128-bit lane.
NIBBLE_INLINE void native_sums_nibble(const float* rows, float* out) {
  const auto halve = [](__m512 a, __m512 b) __attribute__((always_inline)) {
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xDD));
  };
  __m512 eight[8], four[4], two[2];
  for (int r = 0; r < 8; ++r) eight[r] = halve(_mm512_loadu_ps(rows + 32 * r), _mm512_loadu_ps(rows + 32 * r + 16));
  for (int r = 0; r < 4; ++r) {  // rows 8 q + 2 i and 8 q + 2 i + 4, for r = 2 i + q
    const __m512 a = eight[r % 2 * 4 + r / 2], b = eight[r % 2 * 4 + r / 2 + 2];
    four[r] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
  }
  for (int r = 0; r < 2; ++r) {
    const __m512 a = four[2 * r], b = four[2 * r + 1];
    two[r] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
  }
  _mm512_storeu_ps(out, halve(two[0], two[1]));
}

// Nearest, ties to even, NaN quiet: to_bf16 on sixteen lanes.
NIBBLE_INLINE void native_store_bf16(uint16_t* p, NativeF v) {
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd);
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  const __m512i quiet = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(quiet, 16)));
}

#if defined(__AVX512BF16__) && defined(__AVX512VBMI__)
#define NIBBLE_BF16_PAIRS
#ifdef __AMX_BF16__
#define NIBBLE_TILES
#endif

// Sixteen pairs of bf16: columns 2 i and 2 i + 1 in lane i.
using NativePairs = __m512i;

NIBBLE_INLINE NativePairs native_load_pairs(const uint16_t* p) { return _mm512_loadu_si512(p); }
NIBBLE_INLINE void native_store_pairs(uint16_t* p, NativePairs v) { _mm512_storeu_si512(p, v); }
// Lane by lane, acc plus both products: fp32, subnormals as zero, one rounding a product.
NIBBLE_INLINE NativeF native_dot_pairs(NativePairs a, NativePairs b, NativeF acc) {
  return _mm512_dpbf16_ps(acc, __builtin_bit_cast(__m512bh, a), __builtin_bit_cast(__m512bh, b));
}
// The first `count` (<= 32) columns, zeros after; nothing past them is read.
NIBBLE_INLINE NativePairs native_load_pairs_head(const uint16_t* p, int64_t count) {
  return _mm512_maskz_loadu_epi16(static_cast<__mmask32>((uint64_t{1} << count) - 1), p);
}
#ifdef NIBBLE_TILES
// Thirty-two columns in the order that nibbles come in: 0 4 8 .. 28, then 1 5 9 .. 29, and so on.
NIBBLE_INLINE NativePairs native_pairs_to_nibble(NativePairs v) {
  const __m512i from = _mm512_set_epi64(0x001F001B00170013, 0x000F000B00070003, 0x001E001A00160012, 0x000E000A00060002,
                                        0x001D001900150011, 0x000D000900050001, 0x001C001800140010, 0x000C000800040000);
  return _mm512_permutexvar_epi16(from, v);
}
// The nibbles of sixteen bytes, one in the low bits of each word, in that order: their eight words four times over, and
// each shifted to its nibble. What is above it is not its own. No shuffle is spent, for those are the lookups'.
NIBBLE_INLINE __m512i native_spread_nibbles(__m128i bytes) {
  const __m512i shifts = _mm512_set_epi64(0x000C000C000C000C, 0x000C000C000C000C, 0x0008000800080008,
                                          0x0008000800080008, 0x0004000400040004, 0x0004000400040004, 0, 0);
  return _mm512_srlv_epi16(_mm512_broadcast_i32x4(bytes), shifts);
}
// Thirty-two columns looked up in a table of sixteen values, or each half of them in its own.
NIBBLE_INLINE NativePairs native_lookup_pairs(__m128i bytes, const uint16_t* table) {
  const __m256i values = _mm256_load_si256(reinterpret_cast<const __m256i*>(table));
  return _mm512_permutexvar_epi16(native_spread_nibbles(bytes), _mm512_broadcast_i64x4(values));
}
NIBBLE_INLINE NativePairs native_lookup_pairs(__m128i bytes, const uint16_t* first, const uint16_t* second) {
  const __m256i low = _mm256_load_si256(reinterpret_cast<const __m256i*>(first));
  const __m256i high = _mm256_load_si256(reinterpret_cast<const __m256i*>(second));
  const __m512i upper_half = _mm512_set4_epi64(0x0010001000100010, 0, 0x0010001000100010, 0);
  const __m512i index =
      _mm512_ternarylogic_epi64(native_spread_nibbles(bytes), _mm512_set1_epi16(15), upper_half, 0xEA);
  return _mm512_permutexvar_epi16(index, _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
}
NIBBLE_INLINE __m128i native_load_bytes(const uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
NIBBLE_INLINE __m128i native_load_8_bytes(const uint8_t* p) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
}
// Sixteen rows of sixteen lanes of 32 bits, turned in place.
NIBBLE_INLINE void native_transpose(__m512i (&row)[16]) {
  __m512i half[16];
  for (int i = 0; i < 16; i += 2) {
    half[i] = _mm512_unpacklo_epi32(row[i], row[i + 1]);
    half[i + 1] = _mm512_unpackhi_epi32(row[i], row[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {  // rows i .. i + 3, whose lanes 4 q + r are in each 128 bits q of row[i + r]
    row[i] = _mm512_unpacklo_epi64(half[i], half[i + 2]);
    row[i + 1] = _mm512_unpackhi_epi64(half[i], half[i + 2]);
    row[i + 2] = _mm512_unpacklo_epi64(half[i + 1], half[i + 3]);
    row[i + 3] = _mm512_unpackhi_epi64(half[i + 1], half[i + 3]);
  }
  for (int r = 0; r < 4; ++r) {
    const __m512i low = _mm512_shuffle_i32x4(row[r], row[4 + r], 0x88);
    const __m512i low_odd = _mm512_shuffle_i32x4(row[r], row[4 + r], 0xDD);
    const __m512i high = _mm512_shuffle_i32x4(row[8 + r], row[12 + r], 0x88);
    const __m512i high_odd = _mm512_shuffle_i32x4(row[8 + r], row[12 + r], 0xDD);
    half[r] = _mm512_shuffle_i32x4(low, high, 0x88);
    half[8 + r] = _mm512_shuffle_i32x4(low, high, 0xDD);
    half[4 + r] = _mm512_shuffle_i32x4(low_odd, high_odd, 0x88);
    half[12 + r] = _mm512_shuffle_i32x4(low_odd, high_odd, 0xDD);
  }
  for (int i = 0; i < 16; ++i) row[i] = half[i];
}
#else
// The even lanes of `a`, then those of `b`, and the odd ones.
NIBBLE_INLINE void native_deal(__m512i a, __m512i b, __m512i& even, __m512i& odd) {
  const __m512i from = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  even = _mm512_permutex2var_epi32(a, from, b);
  odd = _mm512_permutex2var_epi32(a, _mm512_add_epi32(from, _mm512_set1_epi32(1)), b);
}
// 256 columns, sixteen a lane, as `native_lookup_codes` has them: vector 4 h + q has columns 16 i + 8 h + q and
// 16 i + 8 h + q + 4 in lane i.
NIBBLE_INLINE void native_to_codes(NativePairs (&v)[8]) {
  // In each half of a vector the pairs first, in the order of those vectors.
  const __m512i pairs =
      _mm512_set_epi64(0x001F001B001E001A, 0x001D0019001C0018, 0x0017001300160012, 0x0015001100140010,
                       0x000F000B000E000A, 0x000D0009000C0008, 0x0007000300060002, 0x0005000100040000);
  for (int i = 0; i < 8; ++i) v[i] = _mm512_permutexvar_epi16(pairs, v[i]);
  for (int bit = 0; bit < 3; ++bit) {  // of the pair's number within its half
    NativePairs dealt[8];
    for (int i = 0; i < 4; ++i) native_deal(v[2 * i], v[2 * i + 1], dealt[i], dealt[4 + i]);
    for (int i = 0; i < 8; ++i) v[i] = dealt[i];
  }
}
// A vector of 256 codes of four bits that were dealt into two halves, looked up in a table of sixteen values that is
// there twice: a lookup ignores what is above.
NIBBLE_INLINE NativePairs native_lookup_codes(const __m512i (&half)[2], int i, const uint16_t* table) {
  return _mm512_permutexvar_epi16(_mm512_srli_epi16(half[i / 4], static_cast<unsigned>(4 * (i % 4))),
                                  _mm512_load_si512(table));
}
// Eight E8M0 scales, each for two lanes.
NIBBLE_INLINE NativeF native_spread_e8m0(uint64_t eight) {
  const __m512i each = _mm512_setr_epi32(0, 0, 1 << 24, 1 << 24, 2 << 24, 2 << 24, 3 << 24, 3 << 24, 4 << 24, 4 << 24,
                                         5 << 24, 5 << 24, 6 << 24, 6 << 24, 7 << 24, 7 << 24);
  const __m512i bytes = _mm512_set1_epi64(static_cast<int64_t>(eight));
  const __m512i bits = _mm512_srli_epi32(_mm512_maskz_permutexvar_epi8(0x8888888888888888, each, bytes), 1);
  // In a float's exponent 0 is to be 2^-127, and 255, which looks like infinity, NaN.
  return _mm512_fixupimm_ps(_mm512_set1_ps(0x1p-127f), _mm512_castsi512_ps(bits), _mm512_set1_epi32(0x11311011), 0);
}
// Sixteen E4M3 scales, one a lane.
NIBBLE_INLINE NativeF native_spread_e4m3(__m128i sixteen) {
  // Exponent and mantissa in a float's place, but for the bias: 2^120 too small, subnormals included.
  const __m512i bits = _mm512_and_si512(_mm512_slli_epi32(_mm512_cvtepi8_epi32(sixteen), 20),
                                        _mm512_set1_epi32(static_cast<int>(0x87F00000)));
  const __mmask16 number =
      _mm_cmpneq_epi8_mask(_mm_or_si128(sixteen, _mm_set1_epi8(static_cast<char>(0x80))), _mm_set1_epi8(-1));
  return _mm512_mask_mul_ps(_mm512_set1_ps(__builtin_nanf("")), number, _mm512_castsi512_ps(bits),
                            _mm512_set1_ps(0x1p120f));
}
#endif
#endif

}  // namespace nibble::cpu::NIBBLE_ISA
