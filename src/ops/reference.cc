#include "ops/reference.h"

#include <cmath>

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

}  // namespace nibble::ops
