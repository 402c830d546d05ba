// E8M0, the scale of the MX formats: a power of two, 2^(bits - 127); 255 is NaN (docs/model.md 3.2, 3.6).
//
// Kernel files of one instruction set include this: see e2m1.h.
#pragma once

#include <cstdint>

namespace nibble::fp4 {

struct E8m0 {
  uint8_t bits = 0;
  friend constexpr bool operator==(E8m0, E8m0) = default;
};

constexpr E8m0 kE8m0Nan{255};
constexpr int kE8m0Bias = 127, kE8m0Max = 254;

[[gnu::always_inline]] constexpr bool is_nan(E8m0 x) { return x.bits == 255; }

// Exact for every code: 0 is the subnormal 2^-127.
[[gnu::always_inline]] constexpr float to_float(E8m0 x) {
  const uint32_t u = x.bits == 0 ? 0x00400000u : x.bits == 255 ? 0x7FC00000u : uint32_t{x.bits} << 23;
  return __builtin_bit_cast(float, u);
}

// 1 / to_float(x), exact: the factor that brings values into a group's range. NaN for NaN.
[[gnu::always_inline]] constexpr float reciprocal(E8m0 x) {
  return x.bits == 255 ? to_float(x) : to_float(E8m0{static_cast<uint8_t>(254 - x.bits)});
}

// From a biased exponent, saturating to what a finite scale can hold.
[[gnu::always_inline]] constexpr E8m0 e8m0_saturated(int biased) {
  return {static_cast<uint8_t>(biased < 0 ? 0 : biased > kE8m0Max ? kE8m0Max : biased)};
}

// The smallest power of two that is not below x >= 0, saturating at both ends; NaN stays NaN.
[[gnu::always_inline]] constexpr E8m0 to_e8m0_round_up(float x) {
  const uint32_t u = __builtin_bit_cast(uint32_t, x);
  if ((u & 0x7FFFFFFFu) > 0x7F800000u) return kE8m0Nan;
  if (u < 0x00800000u) return {static_cast<uint8_t>(u > 0x00400000u ? 1 : 0)};  // subnormals: 2^-127 is one of them
  return e8m0_saturated(static_cast<int>(u >> 23) + ((u & 0x007FFFFFu) != 0 ? 1 : 0));
}

}  // namespace nibble::fp4
