// E2M1, the 4-bit float of every FP4 format: sign, two exponent bits, one mantissa bit (docs/model.md 3.1).
//
// Kernel files of one instruction set include this, so it includes nothing that emits code: each function is always
// inlined and the table has internal linkage, in debug builds too.
#pragma once

#include <cstdint>

namespace nibble::fp4 {

struct E2m1 {
  uint8_t bits = 0;  // the low four
  friend constexpr bool operator==(E2m1, E2m1) = default;
};

constexpr float kE2m1Max = 6.0f;
constexpr int kE2m1MaxExponent = 2;  // 6 = 1.5 * 2^2

// By code; 8 is minus zero.
constexpr float kE2m1Values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                   -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

[[gnu::always_inline]] constexpr float to_float(E2m1 x) { return kE2m1Values[x.bits & 15]; }

// Nearest, ties to the even code, saturating at 6. The sign of zero is kept. A NaN becomes +6, as the conversion
// instructions have it: E2M1 has no NaN, so callers that must notice one look at the scale of its group.
[[gnu::always_inline]] constexpr E2m1 to_e2m1(float x) {
  const uint32_t u = __builtin_bit_cast(uint32_t, x);
  if ((u & 0x7FFFFFFFu) > 0x7F800000u) return {7};
  const float m = __builtin_bit_cast(float, u & 0x7FFFFFFFu);
  // A midpoint below an even code takes that code, so it compares with >=; below an odd one it stays under, so with >.
  const int code = (m > 0.25f) + (m >= 0.75f) + (m > 1.25f) + (m >= 1.75f) + (m > 2.5f) + (m >= 3.5f) + (m > 5.0f);
  return {static_cast<uint8_t>(code | static_cast<int>((u >> 31) << 3))};
}

// Two codes a byte: the low nibble is the even K index.
[[gnu::always_inline]] constexpr uint8_t pack(E2m1 even, E2m1 odd) {
  return static_cast<uint8_t>((even.bits & 15) | (odd.bits << 4));
}
[[gnu::always_inline]] constexpr E2m1 unpack_even(uint8_t byte) { return {static_cast<uint8_t>(byte & 15)}; }
[[gnu::always_inline]] constexpr E2m1 unpack_odd(uint8_t byte) { return {static_cast<uint8_t>(byte >> 4)}; }

}  // namespace nibble::fp4
