// E4M3 ("fn"): bias 7, no infinity, largest 448, 0x7F and 0xFF are NaN (docs/model.md 3.6).
//
// Kernel files of one instruction set include this: see e2m1.h.
#pragma once

#include <cstdint>

namespace nibble::fp4 {

struct E4m3 {
  uint8_t bits = 0;
  friend constexpr bool operator==(E4m3, E4m3) = default;
};

constexpr float kE4m3Max = 448.0f;
constexpr int kE4m3MaxExponent = 8;  // 448 = 1.75 * 2^8

[[gnu::always_inline]] constexpr bool is_nan(E4m3 x) { return (x.bits & 0x7F) == 0x7F; }

[[gnu::always_inline]] constexpr float to_float(E4m3 x) {
  const uint32_t sign = uint32_t{x.bits & 0x80u} << 24, magnitude = x.bits & 0x7Fu;
  if (magnitude == 0x7F) return __builtin_bit_cast(float, sign | 0x7FC00000u);
  if (magnitude < 8) {  // subnormal, in steps of 2^-9
    return __builtin_bit_cast(float, sign | __builtin_bit_cast(uint32_t, static_cast<float>(magnitude) * 0x1p-9f));
  }
  return __builtin_bit_cast(float, sign | ((magnitude << 20) + (120u << 23)));
}

// Nearest, ties to even, saturating at 448 (infinity too); NaN stays NaN.
[[gnu::always_inline]] constexpr E4m3 to_e4m3(float x) {
  const uint32_t u = __builtin_bit_cast(uint32_t, x), magnitude = u & 0x7FFFFFFFu, sign = (u >> 24) & 0x80u;
  if (magnitude > 0x7F800000u) return {static_cast<uint8_t>(sign | 0x7Fu)};
  if (magnitude >= 0x43E00000u) return {static_cast<uint8_t>(sign | 0x7Eu)};  // 448 and above
  if (magnitude < 0x3C800000u) {  // below 2^-6: adding 2^14, whose unit is 2^-9, rounds to the subnormal grid
    const float landed = __builtin_bit_cast(float, magnitude) + 0x1p14f;
    return {static_cast<uint8_t>(sign | (__builtin_bit_cast(uint32_t, landed) - 0x46800000u))};
  }
  const uint32_t rounded = magnitude + 0x7FFFFu + ((magnitude >> 20) & 1u);
  return {static_cast<uint8_t>(sign | ((rounded >> 20) - (120u << 3)))};
}

}  // namespace nibble::fp4
