// Weights as pairs of bf16, for sets that multiply those.
#pragma once

#include <type_traits>

#include "cpu/kernels/vec.h"
#include "cpu/kernels/weights.h"
#include "fp4/format.h"
#include "ops/weight.h"

#ifdef NIBBLE_BF16_PAIRS
namespace nibble::cpu::NIBBLE_ISA {

constexpr int64_t kPairColumns = 32;

// Row types have at(k) for 32 columns (ScaledRow: kScaledColumns) from k on, a multiple of that; rest(k, count) for the
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
constexpr int64_t kScaledColumns = 128;

// So many FP4 weights, apart from their scales: column 4 w + q in word w of quarter q, as the codes have them, so that
// the eight columns of a lane have one scale between them. NVFP4's come without the tensor's, as in weights.h.
struct ScaledPairs {
  NativePairs quarter[4];
  NativeF scale;
};
struct E2m1Pairs {
  alignas(64) uint16_t value[32];
};
consteval E2m1Pairs e2m1_pairs() {
  E2m1Pairs out = {};
  for (int i = 0; i < 32; ++i) out.value[i] = to_bf16(0.5f * kDoubledE2m1[i % 16]).bits;
  return out;
}
static constexpr E2m1Pairs kE2m1Pairs = e2m1_pairs();

template <class Format>
struct ScaledRow {
  static constexpr int kCodeBits = 4;
  static constexpr int64_t kScaleGroup = Format::kGroup;
  const uint8_t *codes, *scales;
  NIBBLE_INLINE ScaledRow(const ops::WeightMatrix& w, int64_t n)
      : codes(static_cast<const uint8_t*>(w.codes) + n * (w.cols / 2)),
        scales(static_cast<const uint8_t*>(w.scales) + n * (w.cols / kScaleGroup)) {}
  NIBBLE_INLINE ScaledPairs at(int64_t k) const {
    Scales of = {};
    __builtin_memcpy(&of, scales + k / kScaleGroup, sizeof of);
    return scaled(native_load_pairs(reinterpret_cast<const uint16_t*>(codes + k / 2)), of);
  }
  NIBBLE_INLINE ScaledPairs rest(int64_t k, int64_t count) const {
    Scales of = {};
    __builtin_memcpy(&of, scales + k / kScaleGroup, static_cast<size_t>(count / kScaleGroup));
    return scaled(native_load_bytes_head(codes + k / 2, count / 2), of);
  }
  NIBBLE_INLINE const void* bytes(int64_t k) const { return codes + k / 2; }

 private:
  using Scales = std::conditional_t<kScaleGroup == fp4::Mxfp4::kGroup, uint32_t, uint64_t>;  // of kScaledColumns
  NIBBLE_INLINE static ScaledPairs scaled(__m512i nibbles, Scales of) {
    ScaledPairs out;
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) out.quarter[q] = native_lookup_quarter(nibbles, q, kE2m1Pairs.value);
    if constexpr (sizeof of == 4)
      out.scale = native_spread_e8m0(of);
    else
      out.scale = native_spread_e4m3(of);
    return out;
  }
};
#endif

}  // namespace nibble::cpu::NIBBLE_ISA
#endif
