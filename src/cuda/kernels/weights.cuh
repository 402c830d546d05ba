// Weights as kernels read them: eight consecutive columns of one row, or one value, whatever the format.
//
// One row type a format. load(k, out) takes a k that is a multiple of eight and gives zeros past the row's end; nothing
// past it is read. kVector: the row begins on a 16-byte boundary and holds a multiple of eight columns, so loads are
// wide.
#pragma once

#include "cuda/kernels/kernel.cuh"
#include "fp4/format.h"
#include "ops/weight.h"

namespace nibble::cuda {

constexpr int kColumns = 8;

// Eight values of a plain row; `left` columns remain from p on.
template <bool kVector>
__device__ __forceinline__ void load_columns(const float* p, int64_t left, float (&out)[kColumns]) {
  if constexpr (kVector) {
    const float4 a = __ldg(reinterpret_cast<const float4*>(p)), b = __ldg(reinterpret_cast<const float4*>(p) + 1);
    out[0] = a.x, out[1] = a.y, out[2] = a.z, out[3] = a.w;
    out[4] = b.x, out[5] = b.y, out[6] = b.z, out[7] = b.w;
  } else {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) out[i] = i < left ? p[i] : 0.0f;
  }
}
template <bool kVector>
__device__ __forceinline__ void load_columns(const Bf16* p, int64_t left, float (&out)[kColumns]) {
  if constexpr (kVector) {
    const uint4 v = __ldg(reinterpret_cast<const uint4*>(p));
    const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      out[2 * i] = __uint_as_float(words[i] << 16);
      out[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000u);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) out[i] = i < left ? widen(p[i]) : 0.0f;
  }
}

// E2M1 as the top bits of a float whose exponent is 126 too small, subnormals included: the factor puts it right,
// exactly.
__device__ __forceinline__ float e2m1(uint32_t code) {
  return __uint_as_float((code & 7u) << 22 | (code & 8u) << 28) * 0x1p126f;
}
// E4M3 likewise, 120 too small.
__device__ __forceinline__ float e4m3(uint32_t code) {
  const uint32_t magnitude = code & 0x7Fu, sign = (code & 0x80u) << 24;
  if (magnitude == 0x7Fu) return __uint_as_float(sign | 0x7FC00000u);
  return __uint_as_float(__float_as_uint(__uint_as_float(magnitude << 20) * 0x1p120f) | sign);
}
__device__ __forceinline__ float e8m0(uint32_t code) {
  return __uint_as_float(code == 0 ? 0x00400000u : code == 255 ? 0x7FC00000u : code << 23);
}

template <class T>
struct PlainRow {
  const T* values;
  int64_t cols;
  __device__ PlainRow(const ops::WeightMatrix& w, int64_t n)
      : values(static_cast<const T*>(w.codes) + n * w.cols), cols(w.cols) {}
  template <bool kVector>
  __device__ __forceinline__ void load(int64_t k, float (&out)[kColumns]) const {
    load_columns<kVector>(values + k, cols - k, out);
  }
  __device__ __forceinline__ float at(int64_t k) const { return widen(values[k]); }
};

// The 4-bit formats: kGroup columns a scale, which is a multiple of eight.
template <class Format>
struct Fp4Row {
  const uint8_t *codes, *scales;
  int64_t cols;
  float tensor_scale;
  __device__ Fp4Row(const ops::WeightMatrix& w, int64_t n)
      : codes(static_cast<const uint8_t*>(w.codes) + n * (w.cols / 2)),
        scales(static_cast<const uint8_t*>(w.scales) + n * (w.cols / Format::kGroup)),
        cols(w.cols),
        tensor_scale(w.tensor_scale) {}
  __device__ __forceinline__ float scale(int64_t k) const {
    const uint32_t code = __ldg(scales + k / Format::kGroup);
    if constexpr (Format::kTensorScale)
      return e4m3(code) * tensor_scale;
    else
      return e8m0(code);
  }
  template <bool kVector>
  __device__ __forceinline__ void load(int64_t k, float (&out)[kColumns]) const {
    if (k >= cols) {
#pragma unroll
      for (int i = 0; i < kColumns; ++i) out[i] = 0.0f;
      return;
    }
    const float factor = scale(k);
    uint32_t word = 0;
    if constexpr (kVector) {
      word = __ldg(reinterpret_cast<const uint32_t*>(codes + k / 2));
    } else {
      for (int i = 0; i < 4; ++i) word |= static_cast<uint32_t>(codes[k / 2 + i]) << (8 * i);
    }
#pragma unroll
    for (int i = 0; i < kColumns; ++i) out[i] = e2m1(word >> (4 * i)) * factor;
  }
  __device__ __forceinline__ float at(int64_t k) const { return e2m1(codes[k / 2] >> (4 * (k % 2))) * scale(k); }
};
using Mxfp4Row = Fp4Row<fp4::Mxfp4>;
using Nvfp4Row = Fp4Row<fp4::Nvfp4>;

// Eight codes with their factor; `left` columns remain from p on.
template <bool kVector>
__device__ __forceinline__ void load_e4m3(const uint8_t* p, int64_t left, float factor, float (&out)[kColumns]) {
  if constexpr (kVector) {
    const uint2 v = __ldg(reinterpret_cast<const uint2*>(p));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      out[i] = e4m3(v.x >> (8 * i) & 0xFFu) * factor;
      out[4 + i] = e4m3(v.y >> (8 * i) & 0xFFu) * factor;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) out[i] = i < left ? e4m3(p[i]) * factor : 0.0f;
  }
}

struct Fp8BlockRow {
  const uint8_t* codes;
  const float* scales;
  int64_t cols;
  __device__ Fp8BlockRow(const ops::WeightMatrix& w, int64_t n)
      : codes(static_cast<const uint8_t*>(w.codes) + n * w.cols),
        scales(static_cast<const float*>(w.scales) +
               n / fp4::Fp8Block::kTile * ((w.cols + fp4::Fp8Block::kTile - 1) / fp4::Fp8Block::kTile)),
        cols(w.cols) {}
  template <bool kVector>
  __device__ __forceinline__ void load(int64_t k, float (&out)[kColumns]) const {
    if (k >= cols) {
#pragma unroll
      for (int i = 0; i < kColumns; ++i) out[i] = 0.0f;
      return;
    }
    load_e4m3<kVector>(codes + k, cols - k, __ldg(scales + k / fp4::Fp8Block::kTile), out);
  }
  __device__ __forceinline__ float at(int64_t k) const { return e4m3(codes[k]) * scales[k / fp4::Fp8Block::kTile]; }
};

struct Mxfp8Row {
  const uint8_t *codes, *scales;
  int64_t cols;
  __device__ Mxfp8Row(const ops::WeightMatrix& w, int64_t n)
      : codes(static_cast<const uint8_t*>(w.codes) + n * w.cols),
        scales(static_cast<const uint8_t*>(w.scales) + n * (w.cols / fp4::Mxfp8::kGroup)),
        cols(w.cols) {}
  template <bool kVector>
  __device__ __forceinline__ void load(int64_t k, float (&out)[kColumns]) const {
    if (k >= cols) {
#pragma unroll
      for (int i = 0; i < kColumns; ++i) out[i] = 0.0f;
      return;
    }
    load_e4m3<kVector>(codes + k, cols - k, e8m0(__ldg(scales + k / fp4::Mxfp8::kGroup)), out);
  }
  __device__ __forceinline__ float at(int64_t k) const { return e4m3(codes[k]) * e8m0(scales[k / fp4::Mxfp8::kGroup]); }
};

// Calls body<Row>() with the row type of `format`: the one place where the format becomes a type.
template <class Body>
void with_row_type(fp4::WeightFormat format, const Body& body) {
  switch (format) {
    case fp4::WeightFormat::kF32: return body.template operator()<PlainRow<float>>();
    case fp4::WeightFormat::kBf16: return body.template operator()<PlainRow<Bf16>>();
    case fp4::WeightFormat::kMxfp4: return body.template operator()<Mxfp4Row>();
    case fp4::WeightFormat::kNvfp4: return body.template operator()<Nvfp4Row>();
    case fp4::WeightFormat::kFp8Block: return body.template operator()<Fp8BlockRow>();
    case fp4::WeightFormat::kMxfp8: return body.template operator()<Mxfp8Row>();
  }
}

// Whether wide loads of a matrix' rows are aligned, and of an activation's.
inline bool wide(const void* data, int64_t cols) {
  return reinterpret_cast<uintptr_t>(data) % 16 == 0 && cols % kColumns == 0;
}
inline bool wide(const ConstRows& x) { return wide(x.data, x.cols) && x.stride % kColumns == 0; }

}  // namespace nibble::cuda
