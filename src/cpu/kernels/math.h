// exp, sigmoid and tanh on sixteen lanes: the same operations on every instruction set, no library call.
#pragma once

#include "cpu/kernels/vec.h"

namespace nibble::cpu::NIBBLE_ISA {

// e^x within 1.02 ulp for x in [-87.3, 88.7] (tests/cpu/math_test.cc measures 1.01); above that infinity, below that 0
// (results under 2^-126 are flushed); NaN stays NaN. Cody-Waite reduction by ln 2 in two parts, then the degree-7
// Taylor-like polynomial on |r| <= ln2 / 2.
NIBBLE_INLINE F16 exp(F16 x) {
  constexpr float kLog2e = 1.44269504088896341f, kLn2Hi = 0.693359375f, kLn2Lo = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to the nearest integer
  F16 out;
  for (int i = 0; i < kParts; ++i) {
    const NativeF v = x.part[i];
    NativeF clamped = native_min(native_max(native_broadcast(-88.0f), v), native_broadcast(89.0f));
    const NativeF shifted = native_fma(clamped, native_broadcast(kLog2e), native_broadcast(kRound));
    const NativeF n = shifted - native_broadcast(kRound);
    NativeF r = native_fma(n, native_broadcast(-kLn2Hi), clamped);
    r = native_fma(n, native_broadcast(-kLn2Lo), r);
    NativeF p = native_broadcast(1.9875691500e-4f);
    p = native_fma(p, r, native_broadcast(1.3981999507e-3f));
    p = native_fma(p, r, native_broadcast(8.3334519073e-3f));
    p = native_fma(p, r, native_broadcast(4.1665795894e-2f));
    p = native_fma(p, r, native_broadcast(1.6666665459e-1f));
    p = native_fma(p, r, native_broadcast(5.0000001201e-1f));
    p = native_fma(p, r * r, r) + native_broadcast(1.0f);
    // Scale by 2^n in two factors, so that neither leaves the exponent range.
    const NativeI whole = __builtin_bit_cast(NativeI, shifted) - __builtin_bit_cast(NativeI, native_broadcast(kRound));
    const NativeI half = whole >> 1;
    const NativeF f1 = __builtin_bit_cast(NativeF, (half + 127) << 23);
    const NativeF f2 = __builtin_bit_cast(NativeF, (whole - half + 127) << 23);
    const NativeF scaled = p * f1 * f2;
    const NativeI low = v<native_broadcast(-87.33654f), high = v> native_broadcast(88.72283f), nan = v != v;
    const NativeI bits = __builtin_bit_cast(NativeI, scaled);
    const NativeI inf = __builtin_bit_cast(NativeI, native_broadcast(__builtin_inff()));
    const NativeI finite = (bits & ~low & ~high) | (inf & high);
    out.part[i] = __builtin_bit_cast(NativeF, (finite & ~nan) | (__builtin_bit_cast(NativeI, v) & nan));
  }
  return out;
}

// 1 / (1 + e^-x) within 3 ulp (measured 2.5); exactly 0 or 1 where e^-x overflows or vanishes.
NIBBLE_INLINE F16 sigmoid(F16 x) { return broadcast(1.0f) / (broadcast(1.0f) + exp(zero() - x)); }

// Within 2 ulp (measured 1.3). Near 0 an odd polynomial keeps the relative error small; elsewhere 1 - 2 / (e^2|x| + 1)
// with the sign of x: from |x|, because for a large negative x the difference would cancel.
NIBBLE_INLINE F16 tanh(F16 x) {
  F16 magnitude;
  for (int i = 0; i < kParts; ++i) {
    magnitude.part[i] = __builtin_bit_cast(NativeF, __builtin_bit_cast(NativeI, x.part[i]) & 0x7FFFFFFF);
  }
  const F16 far = broadcast(1.0f) - broadcast(2.0f) / (exp(magnitude + magnitude) + broadcast(1.0f));
  const F16 z = x * x;
  F16 p = broadcast(-5.70498872745e-3f);
  p = fma(p, z, broadcast(2.06390887954e-2f));
  p = fma(p, z, broadcast(-5.37397155531e-2f));
  p = fma(p, z, broadcast(1.33314422036e-1f));
  p = fma(p, z, broadcast(-3.33332819422e-1f));
  const F16 near = fma(p * z, magnitude, magnitude);
  F16 out;
  for (int i = 0; i < kParts; ++i) {
    const NativeI small = magnitude.part[i] < native_broadcast(0.625f);
    const NativeI sign = __builtin_bit_cast(NativeI, x.part[i]) & ~0x7FFFFFFF;
    out.part[i] = __builtin_bit_cast(NativeF, (__builtin_bit_cast(NativeI, near.part[i]) & small) |
                                                  (__builtin_bit_cast(NativeI, far.part[i]) & ~small) | sign);
  }
  return out;
}

// One value through a vector function, for the odd scalar.
NIBBLE_INLINE float first_lane(F16 v) {
  float lane[kLanes];
  store(lane, v);
  return lane[0];
}

}  // namespace nibble::cpu::NIBBLE_ISA
