// Weights as pairs of bf16, for sets that multiply those: thirty-two consecutive columns of one row.
//
// FP4 weights are looked up with their scale in them; as in weights.h, NVFP4's come without the tensor's.
#pragma once

#include "cpu/kernels/vec.h"
#include "cpu/kernels/weights.h"
#include "fp4/format.h"
#include "ops/weight.h"

#ifdef NIBBLE_BF16_PAIRS
namespace nibble::cpu::NIBBLE_ISA {

constexpr int64_t kPairColumns = 32;

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

// Each has at(k) for columns k .. k + 31, k a multiple of 32; rest(k, count) for the last count < 32 of them, zeros
// after; and bytes(k), where column k is. With kNibbleOrder columns come in the order of native_pairs_to_nibble.
struct Bf16Pairs {
  static constexpr bool kNibbleOrder = false;
  static constexpr int kCodeBits = 16;
  static constexpr int64_t kScaleGroup = 0;
  const uint16_t* values;
  NIBBLE_INLINE Bf16Pairs(const ops::WeightMatrix& w, int64_t n)
      : values(static_cast<const uint16_t*>(w.codes) + n * w.cols) {}
  NIBBLE_INLINE NativePairs at(int64_t k) const { return native_load_pairs(values + k); }
  NIBBLE_INLINE NativePairs rest(int64_t k, int64_t count) const {
    uint16_t padded[kPairColumns] = {};
    for (int64_t i = 0; i < count; ++i) padded[i] = values[k + i];
    return native_load_pairs(padded);
  }
  NIBBLE_INLINE const void* bytes(int64_t k) const { return values + k; }
};

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

}  // namespace nibble::cpu::NIBBLE_ISA
#endif
