// Weights as kernels read them: sixteen consecutive columns of one row, whatever the format.
//
// One row type a format, each with at(k), columns k .. k + 15 for a k that is a multiple of 16; plain formats and
// fp8-block also have tail(k, count), the last count < 16 columns with zeros after them; bytes(k) is where column k is.
// Nothing past the row's end is read. NVFP4's columns come without the tensor's scale, which is the reader's to
// multiply by: dots do so with the finished sum.
#pragma once

#include "cpu/kernels/vec.h"
#include "fp4/format.h"
#include "ops/weight.h"

namespace nibble::cpu::NIBBLE_ISA {

struct ScaleTable {
  float value[256];
};

// Half of each scale: E2M1 codes are looked up as twice their value, which is a small integer. Halving is exact for all
// of E8M0 (2^-128 is a subnormal float).
template <class Scale>
consteval ScaleTable half_scales() {
  ScaleTable out = {};
  for (int i = 0; i < 256; ++i) {
    const float scale = to_float(Scale{static_cast<uint8_t>(i)});
    out.value[i] = scale == scale ? scale * 0.5f : scale;  // clang computes with no NaN at compile time
  }
  return out;
}
static constexpr ScaleTable kHalfE8m0 = half_scales<fp4::E8m0>(), kHalfE4m3 = half_scales<fp4::E4m3>();

// Twice the value of each code; minus zero comes as zero, which no sum can tell apart.
alignas(16) static constexpr int8_t kDoubledE2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// A code with its scale, for tables: products of E2M1 with E8M0 or E4M3 are bf16 numbers.
template <class Scale>
consteval float scaled_e2m1(int scale_bits, int code) {
  const float scale = to_float(Scale{static_cast<uint8_t>(scale_bits)});
  if (scale != scale) return scale;  // clang computes with no NaN at compile time
  const double value = static_cast<double>(scale) * 0.5 * kDoubledE2m1[code];
  const bool large = value > 0x1.FFp127 || value < -0x1.FFp127;
  const float infinity = value < 0 ? -__builtin_inff() : __builtin_inff();
  return large ? infinity : static_cast<float>(value);
}

// Sixteen codes with half of their scale.
NIBBLE_INLINE F16 load_e2m1(const uint8_t* p, float half_scale) {
  F16 r;
  native_lookup_nibbles(p, kDoubledE2m1, half_scale, r.part);
  return r;
}

// The seven low bits of E4M3 are a float's exponent and mantissa but for the bias: in their place they are a number
// that is 2^120 too small, subnormals included.
NIBBLE_INLINE NativeF small_e4m3(NativeI bits) {
  return __builtin_bit_cast(NativeF, bits & static_cast<int32_t>(0x87F00000));
}
NIBBLE_INLINE F16 load_e4m3(const uint8_t* p) {
  F16 r;
  for (int i = 0; i < kParts; ++i) {
    const NativeI code = native_load_s8(p + i * kNativeLanes), nan = ((code | ~0x7F) == -1) & 0x7FC00000;
    const NativeF value = small_e4m3(code << 20) * native_broadcast(0x1p120f);
    r.part[i] = __builtin_bit_cast(NativeF, __builtin_bit_cast(NativeI, value) | nan);
  }
  return r;
}

// 2^120 times each E8M0 scale that MXFP8 may have: with it a code that is no NaN takes one multiplication.
consteval ScaleTable mxfp8_factors() {
  ScaleTable out = {};
  for (int i = 0; i < 256; ++i) {
    const float scale = to_float(fp4::E8m0{static_cast<uint8_t>(i)});
    out.value[i] = scale != scale ? scale : i > fp4::Mxfp8::kMaxScale.bits ? __builtin_inff() : scale * 0x1p120f;
  }
  return out;
}
static constexpr ScaleTable kMxfp8Factors = mxfp8_factors();

template <class T>
struct PlainRow {
  static constexpr bool kHasTail = true;
  static constexpr bool kPaired = kSplitOrder && sizeof(T) == 2;  // has unpack(), in Order::kSplit
  static constexpr bool kNibbles = false;                         // has unpack() in Order::kNibble
  static constexpr int64_t kScaleGroup = 0;                       // columns a byte of `scales`, if it has such
  static constexpr int kCodeBits = 8 * sizeof(T);
  const T* values;
  NIBBLE_INLINE PlainRow(const ops::WeightMatrix& w, int64_t n) : values(static_cast<const T*>(w.codes) + n * w.cols) {}
  NIBBLE_INLINE F16 at(int64_t k) const { return load(values + k); }
  NIBBLE_INLINE F16 tail(int64_t k, int64_t count) const { return load_head(values + k, count); }
#ifdef NIBBLE_SPLIT_ORDER
  template <Order kOrder>
  NIBBLE_INLINE void unpack(int64_t k, F16* out) const {
    static_assert(kOrder == Order::kSplit);
    for (int i = 0; i < 2; ++i) out[i] = load_split(values + k + i * kLanes);
  }
#endif
  NIBBLE_INLINE const void* bytes(int64_t k) const { return values + k; }
};

#ifdef NIBBLE_NIBBLE_ORDER
// What each code stands for under each scale.
struct ScaledCodes {
  NativeCodes of_scale[256];
};
template <class Scale>
consteval ScaledCodes scaled_codes() {
  ScaledCodes out = {};
  for (int s = 0; s < 256; ++s) {
    for (int c = 0; c < 16; ++c) out.of_scale[s].set(c, scaled_e2m1<Scale>(s, c));
  }
  return out;
}
static constexpr ScaledCodes kE8m0Codes = scaled_codes<fp4::E8m0>(), kE4m3Codes = scaled_codes<fp4::E4m3>();

// The thirty-two columns that sixteen bytes of codes hold, each half of them under its own scale.
template <Order kOrder>
NIBBLE_INLINE void lookup(const uint8_t* p, const NativeCodes& first, const NativeCodes& second, F16* out) {
#ifdef NIBBLE_SPLIT_ORDER
  if constexpr (kOrder == Order::kSplit) native_lookup_split(p, first, second, out[0].part, out[1].part);
#endif
  if constexpr (kOrder == Order::kNibble) native_lookup_nibble(p, first, second, out[0].part, out[1].part);
}
#endif

struct Mxfp4Row {
  static constexpr bool kHasTail = false, kPaired = kSplitOrder, kNibbles = kNibbleOrder;
  static constexpr int kCodeBits = 4;
  static constexpr int64_t kScaleGroup = fp4::Mxfp4::kGroup;
  const uint8_t *codes, *scales;
  NIBBLE_INLINE Mxfp4Row(const ops::WeightMatrix& w, int64_t n)
      : codes(static_cast<const uint8_t*>(w.codes) + n * (w.cols / 2)),
        scales(static_cast<const uint8_t*>(w.scales) + n * (w.cols / fp4::Mxfp4::kGroup)) {}
  NIBBLE_INLINE F16 at(int64_t k) const {
    return load_e2m1(codes + k / 2, kHalfE8m0.value[scales[k / fp4::Mxfp4::kGroup]]);
  }
#ifdef NIBBLE_NIBBLE_ORDER
  template <Order kOrder>
  NIBBLE_INLINE void unpack(int64_t k, F16* out) const {
    const NativeCodes& scaled = kE8m0Codes.of_scale[scales[k / fp4::Mxfp4::kGroup]];
    lookup<kOrder>(codes + k / 2, scaled, scaled, out);
  }
#endif
  NIBBLE_INLINE const void* bytes(int64_t k) const { return codes + k / 2; }
};

struct Nvfp4Row {
  static constexpr bool kHasTail = false, kPaired = kSplitOrder, kNibbles = kNibbleOrder;
  static constexpr int kCodeBits = 4;
  static constexpr int64_t kScaleGroup = fp4::Nvfp4::kGroup;
  const uint8_t *codes, *scales;
  NIBBLE_INLINE Nvfp4Row(const ops::WeightMatrix& w, int64_t n)
      : codes(static_cast<const uint8_t*>(w.codes) + n * (w.cols / 2)),
        scales(static_cast<const uint8_t*>(w.scales) + n * (w.cols / fp4::Nvfp4::kGroup)) {}
  NIBBLE_INLINE F16 at(int64_t k) const {
    return load_e2m1(codes + k / 2, kHalfE4m3.value[scales[k / fp4::Nvfp4::kGroup]]);
  }
#ifdef NIBBLE_NIBBLE_ORDER
  template <Order kOrder>
  NIBBLE_INLINE void unpack(int64_t k, F16* out) const {
    const uint8_t* scale = scales + k / fp4::Nvfp4::kGroup;
    lookup<kOrder>(codes + k / 2, kE4m3Codes.of_scale[scale[0]], kE4m3Codes.of_scale[scale[1]], out);
  }
#endif
  NIBBLE_INLINE const void* bytes(int64_t k) const { return codes + k / 2; }
};

struct Fp8BlockRow {
  static constexpr bool kHasTail = true, kPaired = false, kNibbles = false;
  static constexpr int kCodeBits = 8;
  static constexpr int64_t kScaleGroup = 0;
  const uint8_t* codes;
  const float* scales;
  NIBBLE_INLINE Fp8BlockRow(const ops::WeightMatrix& w, int64_t n)
      : codes(static_cast<const uint8_t*>(w.codes) + n * w.cols),
        scales(static_cast<const float*>(w.scales) +
               n / fp4::Fp8Block::kTile * ((w.cols + fp4::Fp8Block::kTile - 1) / fp4::Fp8Block::kTile)) {}
  NIBBLE_INLINE F16 at(int64_t k) const { return load_e4m3(codes + k) * broadcast(scales[k / fp4::Fp8Block::kTile]); }
  NIBBLE_INLINE F16 tail(int64_t k, int64_t count) const {
    uint8_t padded[kLanes] = {};
    for (int64_t i = 0; i < count; ++i) padded[i] = codes[k + i];
    return load_e4m3(padded) * broadcast(scales[k / fp4::Fp8Block::kTile]);
  }
  NIBBLE_INLINE const void* bytes(int64_t k) const { return codes + k; }
};

struct Mxfp8Row {
  static constexpr bool kHasTail = false, kPaired = false, kNibbles = kNibbleOrder;
  static constexpr int kCodeBits = 8;
  static constexpr int64_t kScaleGroup = fp4::Mxfp8::kGroup;
  const uint8_t *codes, *scales;
  NIBBLE_INLINE Mxfp8Row(const ops::WeightMatrix& w, int64_t n)
      : codes(static_cast<const uint8_t*>(w.codes) + n * w.cols),
        scales(static_cast<const uint8_t*>(w.scales) + n * (w.cols / fp4::Mxfp8::kGroup)) {}
  NIBBLE_INLINE NativeF factor(int64_t k) const {
    return native_broadcast(kMxfp8Factors.value[scales[k / fp4::Mxfp8::kGroup]]);
  }
  NIBBLE_INLINE F16 at(int64_t k) const {
    F16 r;
    for (int i = 0; i < kParts; ++i) {
      r.part[i] = small_e4m3(native_load_s8(codes + k + i * kNativeLanes) << 20) * factor(k);
    }
    return r;
  }
#ifdef NIBBLE_NIBBLE_ORDER
  template <Order kOrder>
  NIBBLE_INLINE void unpack(int64_t k, F16* out) const {
    static_assert(kOrder == Order::kNibble);
    for (int i = 0; i < 2; ++i) {
      NativeI top[kParts];
      native_bytes_to_nibble(codes + k + i * kLanes, top);
      for (int part = 0; part < kParts; ++part) out[i].part[part] = small_e4m3(top[part] >> 4) * factor(k);
    }
  }
#endif
  NIBBLE_INLINE const void* bytes(int64_t k) const { return codes + k; }
};

// Calls body<Row>() with the row type of `format`: the one place where a kernel turns the format into a type.
template <class Body>
NIBBLE_INLINE void with_row_type(fp4::WeightFormat format, const Body& body) {
  switch (format) {
    case fp4::WeightFormat::kF32: return body.template operator()<PlainRow<float>>();
    case fp4::WeightFormat::kBf16: return body.template operator()<PlainRow<Bf16>>();
    case fp4::WeightFormat::kMxfp4: return body.template operator()<Mxfp4Row>();
    case fp4::WeightFormat::kNvfp4: return body.template operator()<Nvfp4Row>();
    case fp4::WeightFormat::kFp8Block: return body.template operator()<Fp8BlockRow>();
    case fp4::WeightFormat::kMxfp8: return body.template operator()<Mxfp8Row>();
  }
}

}  // namespace nibble::cpu::NIBBLE_ISA
