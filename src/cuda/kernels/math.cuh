// exp, sigmoid, tanh and SiTU: the operations of src/cpu/kernels/math.h, one value at a time, so the same bits.
#pragma once

#include "cuda/kernels/kernel.cuh"

namespace nibble::cuda {

// See the CPU's for bounds: within 1.02 ulp in [-87.3, 88.7], infinity above, 0 below, NaN stays NaN.
__device__ __forceinline__ float exp(float x) {
  constexpr float kLog2e = 1.44269504088896341f, kLn2Hi = 0.693359375f, kLn2Lo = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to the nearest integer
  if (x != x) return x;
  if (x < -87.33654f) return 0.0f;
  if (x > 88.72283f) return __int_as_float(0x7F800000);
  const float shifted = fma(x, kLog2e, kRound), n = shifted - kRound;
  float r = fma(n, -kLn2Hi, x);
  r = fma(n, -kLn2Lo, r);
  float p = 1.9875691500e-4f;
  p = fma(p, r, 1.3981999507e-3f);
  p = fma(p, r, 8.3334519073e-3f);
  p = fma(p, r, 4.1665795894e-2f);
  p = fma(p, r, 1.6666665459e-1f);
  p = fma(p, r, 5.0000001201e-1f);
  p = fma(p, r * r, r) + 1.0f;
  // Scale by 2^n in two factors, so that neither leaves the exponent range.
  const int whole = __float_as_int(shifted) - __float_as_int(kRound), half = whole >> 1;
  return p * __int_as_float((half + 127) << 23) * __int_as_float((whole - half + 127) << 23);
}

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + exp(0.0f - x)); }

__device__ __forceinline__ float tanh(float x) {
  const float magnitude = fabsf(x);
  float out;
  if (magnitude < 0.625f) {
    const float z = x * x;
    float p = -5.70498872745e-3f;
    p = fma(p, z, 2.06390887954e-2f);
    p = fma(p, z, -5.37397155531e-2f);
    p = fma(p, z, 1.33314422036e-1f);
    p = fma(p, z, -3.33332819422e-1f);
    out = fma(p * z, magnitude, magnitude);
  } else {
    out = 1.0f - 2.0f / (exp(magnitude + magnitude) + 1.0f);
  }
  return __int_as_float(__float_as_int(out) | (__float_as_int(x) & ~0x7FFFFFFF));
}

__device__ __forceinline__ float situ(float gate, float up, float beta, float linear_beta) {
  return (beta * tanh(gate / beta) * sigmoid(gate)) * (linear_beta * tanh(up / linear_beta));
}

}  // namespace nibble::cuda
