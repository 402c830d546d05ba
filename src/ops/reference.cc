#include "ops/reference.h"

#include <cmath>
#include <limits>

namespace nibble::ops {

double landed(double value, DType dtype) {
  auto narrow = static_cast<float>(value);
  if (dtype != DType::kBf16 || !std::isfinite(narrow)) return static_cast<double>(narrow);
  // Round to odd in fp32: if the conversion was inexact, take the neighbour with an odd last bit.
  if (static_cast<double>(narrow) != value) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, narrow);
    if ((bits & 1u) == 0) {
      const bool away = std::fabs(value) > std::fabs(static_cast<double>(narrow));
      narrow = __builtin_bit_cast(float, away ? bits + 1 : bits - 1);
    }
  }
  return static_cast<double>(to_float(to_bf16(narrow)));
}

double get(const WeightMatrix& w, int64_t row, int64_t col) {
  const int64_t i = row * w.cols + col;
  const auto* bytes = static_cast<const uint8_t*>(w.codes);
  const auto scale_byte = [&](int64_t group) { return static_cast<const uint8_t*>(w.scales)[i / group]; };
  const auto e2m1 = [&] {
    const uint8_t byte = bytes[i / 2];
    return static_cast<double>(to_float(col % 2 == 0 ? fp4::unpack_even(byte) : fp4::unpack_odd(byte)));
  };
  switch (w.format) {
    case fp4::WeightFormat::kF32: return static_cast<double>(static_cast<const float*>(w.codes)[i]);
    case fp4::WeightFormat::kBf16: return static_cast<double>(to_float(static_cast<const Bf16*>(w.codes)[i]));
    case fp4::WeightFormat::kMxfp4:
      return e2m1() * static_cast<double>(to_float(fp4::E8m0{scale_byte(fp4::Mxfp4::kGroup)}));
    case fp4::WeightFormat::kNvfp4:
      return e2m1() * static_cast<double>(to_float(fp4::E4m3{scale_byte(fp4::Nvfp4::kGroup)})) *
             static_cast<double>(w.tensor_scale);
    case fp4::WeightFormat::kFp8Block: {
      constexpr int64_t kTile = fp4::Fp8Block::kTile;
      const float scale =
          static_cast<const float*>(w.scales)[row / kTile * ((w.cols + kTile - 1) / kTile) + col / kTile];
      return static_cast<double>(to_float(fp4::E4m3{bytes[i]})) * static_cast<double>(scale);
    }
    case fp4::WeightFormat::kMxfp8:
      return static_cast<double>(to_float(fp4::E4m3{bytes[i]})) *
             static_cast<double>(to_float(fp4::E8m0{scale_byte(fp4::Mxfp8::kGroup)}));
  }
  return std::numeric_limits<double>::quiet_NaN();
}

double dot(const WeightMatrix& w, int64_t n, const ConstRows& x, int64_t t) {
  double total = 0;
  for (int64_t k = 0; k < w.cols; ++k) total += get(w, n, k) * get(x, t, k);
  return total;
}

double situ_value(double gate, double up, float beta, float linear_beta) {
  const auto b = static_cast<double>(beta), l = static_cast<double>(linear_beta);
  return b * std::tanh(gate / b) / (1 + std::exp(-gate)) * l * std::tanh(up / l);
}

}  // namespace nibble::ops
