// Weights as pairs of bf16, for sets that multiply those.
#pragma once

#include "cpu/kernels/vec.h"
#include "cpu/kernels/weights.h"
#include "fp4/format.h"
#include "ops/weight.h"

#ifdef NIBBLE_BF16_PAIRS
namespace nibble::cpu::NIBBLE_ISA {

constexpr int64_t kPairColumns = 32;

// Row types have at(k) for 32 columns (SpanRow: kSpanColumns) from k on, a multiple of that; rest(k, count) for the
// last ones when they are fewer, zeros after; and bytes(k), where column k is.
struct Bf16Pairs {
  static constexpr bool kNibbleOrder = false;
  static constexpr int kCodeBits = 16;
  static constexpr int64_t kScaleGroup = 0;
  const uint16_t* values;
  NIBBLE_INLINE Bf16Pairs(const ops::WeightMatrix& w, int64_t n)
      : values(static_cast<const uint16_t*>(w.codes) + n * w.cols) {}
  NIBBLE_INLINE NativePairs at(int64_t k) const { return native_load_pairs(values + k); }
  NIBBLE_INLINE NativePairs rest(int64_t k, int64_t count) const { return native_load_pairs_head(values + k, count); }
  NIBBLE_INLINE const void* bytes(int64_t k) const { return values + k; }
};

#ifdef NIBBLE_TILES
// FP4 weights are looked up with their scale in them, thirty-two columns in the order of native_pairs_to_nibble; as in
// weights.h, NVFP4's come without the tensor's.
struct Bf16Table {
  alignas(64) uint16_t value[256][16];
};
template <class Scale>
consteval Bf16Table bf16_table() {
  Bf16Table out = {};
  for (int s = 0; s < 256; ++s) {
    for (int c = 0; c < 16; ++c) out.value[s][c] = to_bf16(scaled_e2m1<Scale>(s, c)).bits;
  }
  return out;
}
static constexpr Bf16Table kE8m0Table = bf16_table<fp4::E8m0>(), kE4m3Table = bf16_table<fp4::E4m3>();

struct Mxfp4Pairs {
  static constexpr bool kNibbleOrder = true;
  static constexpr int kCodeBits = 4;
  static constexpr int64_t kScaleGroup = fp4::Mxfp4::kGroup;
  const uint8_t *codes, *scales;
  NIBBLE_INLINE Mxfp4Pairs(const ops::WeightMatrix& w, int64_t n)
      : codes(static_cast<const uint8_t*>(w.codes) + n * (w.cols / 2)),
        scales(static_cast<const uint8_t*>(w.scales) + n * (w.cols / fp4::Mxfp4::kGroup)) {}
  NIBBLE_INLINE NativePairs at(int64_t k) const {
    return native_lookup_pairs(native_load_bytes(codes + k / 2), kE8m0Table.value[scales[k / fp4::Mxfp4::kGroup]]);
  }
  NIBBLE_INLINE NativePairs rest(int64_t k, int64_t) const { return at(k); }  // groups are whole: never called
  NIBBLE_INLINE const void* bytes(int64_t k) const { return codes + k / 2; }
};

struct Nvfp4Pairs {
  static constexpr bool kNibbleOrder = true;
  static constexpr int kCodeBits = 4;
  static constexpr int64_t kScaleGroup = fp4::Nvfp4::kGroup;
  const uint8_t *codes, *scales;
  NIBBLE_INLINE Nvfp4Pairs(const ops::WeightMatrix& w, int64_t n)
      : codes(static_cast<const uint8_t*>(w.codes) + n * (w.cols / 2)),
        scales(static_cast<const uint8_t*>(w.scales) + n * (w.cols / fp4::Nvfp4::kGroup)) {}
  NIBBLE_INLINE NativePairs at(int64_t k) const {
    const uint8_t* scale = scales + k / fp4::Nvfp4::kGroup;
    return native_lookup_pairs(native_load_bytes(codes + k / 2), kE4m3Table.value[scale[0]],
                               kE4m3Table.value[scale[1]]);
  }
  // A single group: the codes after it are zeros.
  NIBBLE_INLINE NativePairs rest(int64_t k, int64_t) const {
    return native_lookup_pairs(native_load_8_bytes(codes + k / 2), kE4m3Table.value[scales[k / fp4::Nvfp4::kGroup]]);
  }
  NIBBLE_INLINE const void* bytes(int64_t k) const { return codes + k / 2; }
};
#else
constexpr int64_t kSpanColumns = 256;

// So many weights are a Span: eight vectors of pairs, and a scale for each of the sixteen lanes.
struct Bf16Span {
  const uint16_t* p;
  int64_t count;  // columns that there are
  NIBBLE_INLINE NativePairs pairs(int i) const {
    const int64_t left = count - i * kPairColumns;
    return left >= kPairColumns ? native_load_pairs(p + i * kPairColumns)
           : left > 0           ? native_load_pairs_head(p + i * kPairColumns, left)
                                : NativePairs{};
  }
  // Of vectors that are not all zeros.
  NIBBLE_INLINE int steps() const { return static_cast<int>((count + kPairColumns - 1) / kPairColumns); }
  NIBBLE_INLINE static NativeF scale() { return native_broadcast(1.0f); }
};
struct Bf16SpanRow : Bf16Pairs {
  using Span = Bf16Span;
  using Bf16Pairs::Bf16Pairs;
  NIBBLE_INLINE Span at(int64_t k) const { return {values + k, kSpanColumns}; }
  NIBBLE_INLINE Span rest(int64_t k, int64_t count) const { return {values + k, count}; }
};

// FP4's are apart from their scales, sixteen columns a lane, so that a lane has one. NVFP4's come without the tensor's,
// as in weights.h.
struct E2m1Pairs {
  alignas(64) uint16_t value[32];
};
consteval E2m1Pairs e2m1_pairs() {
  E2m1Pairs out = {};
  for (int i = 0; i < 32; ++i) out.value[i] = to_bf16(0.5f * kDoubledE2m1[i % 16]).bits;
  return out;
}
static constexpr E2m1Pairs kE2m1Pairs = e2m1_pairs();

struct Fp4Span {
  __m512i half[2];
  NativeF of_lanes;
  NIBBLE_INLINE NativePairs pairs(int i) const { return native_lookup_codes(half, i, kE2m1Pairs.value); }
  NIBBLE_INLINE static int steps() { return kSpanColumns / kPairColumns; }
  NIBBLE_INLINE NativeF scale() const { return of_lanes; }
};

template <class Format>
struct Fp4SpanRow {
  using Span = Fp4Span;
  static constexpr int kCodeBits = 4;
  static constexpr int64_t kScaleGroup = Format::kGroup;
  const uint8_t *codes, *scales;
  NIBBLE_INLINE Fp4SpanRow(const ops::WeightMatrix& w, int64_t n)
      : codes(static_cast<const uint8_t*>(w.codes) + n * (w.cols / 2)),
        scales(static_cast<const uint8_t*>(w.scales) + n * (w.cols / kScaleGroup)) {}
  NIBBLE_INLINE Span at(int64_t k) const { return rest(k, kSpanColumns); }
  NIBBLE_INLINE Span rest(int64_t k, int64_t count) const {
    Span out;
    const auto* words = reinterpret_cast<const uint16_t*>(codes + k / 2);
    constexpr int64_t kHalf = kSpanColumns / 2;
    native_deal(load_codes(words, count < kHalf ? count : kHalf),
                load_codes(words + kPairColumns, count < kHalf ? 0 : count - kHalf), out.half[0], out.half[1]);
    const auto bytes = static_cast<size_t>(count / kScaleGroup);
    if constexpr (kScaleGroup == fp4::Mxfp4::kGroup) {
      uint64_t eight = 0;
      __builtin_memcpy(&eight, scales + k / kScaleGroup, bytes);
      out.of_lanes = native_spread_e8m0(eight);
    } else {
      __m128i sixteen = {};
      __builtin_memcpy(&sixteen, scales + k / kScaleGroup, bytes);
      out.of_lanes = native_spread_e4m3(sixteen);
    }
    return out;
  }
  NIBBLE_INLINE const void* bytes(int64_t k) const { return codes + k / 2; }

 private:
  // `count` of 128 codes, four a word, zeros after.
  NIBBLE_INLINE static __m512i load_codes(const uint16_t* p, int64_t count) {
    return count == kSpanColumns / 2 ? native_load_pairs(p)
           : count > 0               ? native_load_pairs_head(p, count / 4)
                                     : __m512i{};
  }
};
#endif

}  // namespace nibble::cpu::NIBBLE_ISA
#endif
