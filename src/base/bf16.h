// bfloat16: the upper half of a float. The one conversion that the whole project rounds by.
#pragma once

#include <cstdint>

namespace nibble {

struct Bf16 {
  uint16_t bits = 0;
  friend bool operator==(Bf16, Bf16) = default;
};

// Always inlined, like everything in base/ that kernels call: a file compiled for one instruction set must not leave a
// copy behind that the linker could give to everybody.
[[gnu::always_inline]] constexpr float to_float(Bf16 x) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(x.bits) << 16);
}

// Nearest, ties to even; a NaN stays a (quiet) NaN, overflow becomes infinity (docs/model.md 3.6).
[[gnu::always_inline]] constexpr Bf16 to_bf16(float x) {
  const uint32_t u = __builtin_bit_cast(uint32_t, x);
  if ((u & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<uint16_t>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16)};
}

}  // namespace nibble
