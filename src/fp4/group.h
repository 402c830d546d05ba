// What the quantisers of this folder share: the largest magnitude of a group, and its codes under a scale.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "base/error.h"
#include "fp4/format.h"

namespace nibble::fp4 {

template <Format F>
void check_row(const char* who, size_t values, size_t code_bytes, size_t scales) {
  if (values % F::kGroup != 0 || code_bytes != values / 2 || scales != values / F::kGroup) {
    throw ContractError(std::string(who) + ": " + std::to_string(values) + " values need a multiple of " +
                        std::to_string(F::kGroup) + ", half as many code bytes and one scale a group; got " +
                        std::to_string(code_bytes) + " and " + std::to_string(scales));
  }
}

// Largest magnitude; NaN if any value is NaN (std::max would lose it).
inline float group_amax(std::span<const float> group) {
  float amax = 0.0f;
  for (const float x : group) {
    if (std::isnan(x)) return std::numeric_limits<float>::quiet_NaN();
    amax = std::fabs(x) > amax ? std::fabs(x) : amax;
  }
  return amax;
}

// codes = e2m1(x * factor): for scales whose reciprocal is exact.
inline void pack_scaled(std::span<const float> group, float factor, std::span<uint8_t> codes) {
  for (size_t i = 0; i < codes.size(); ++i) {
    codes[i] = pack(to_e2m1(group[2 * i] * factor), to_e2m1(group[2 * i + 1] * factor));
  }
}

// codes = e2m1(x / step), all zero when the step is zero.
inline void pack_divided(std::span<const float> group, float step, std::span<uint8_t> codes) {
  for (size_t i = 0; i < codes.size(); ++i) {
    codes[i] = step == 0.0f ? uint8_t{0} : pack(to_e2m1(group[2 * i] / step), to_e2m1(group[2 * i + 1] / step));
  }
}

}  // namespace nibble::fp4
