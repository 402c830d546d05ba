// Rows of weights to and from the packed formats. Plain and exact; kernels have their own vectorised decoding.
//
// A row is K values; K is a multiple of the format's group. Codes are packed two a byte, low nibble = even K.
// ContractError when a length does not fit. Non-finite input has no place in a weight: also ContractError.
#pragma once

#include <cstdint>
#include <span>

#include "fp4/format.h"

namespace nibble::fp4 {

// The OCP floor rule: scale exponent = floor(log2(amax)) - 2, values above 6 saturate. An all-zero group gets scale
// byte 0 and zero codes.
void quantize_mxfp4(std::span<const float> row, std::span<uint8_t> codes, std::span<E8m0> scales);

// 448 * 6 / amax, the divisor that compressed-tensors stores as weight_global_scale; amax below 1e-12 counts as 1e-12.
float nvfp4_divisor(float amax);
// Group scale = e4m3(amax / 6 * divisor); a group whose scale rounds to zero gets zero codes.
void quantize_nvfp4(std::span<const float> row, float divisor, std::span<uint8_t> codes, std::span<E4m3> scales);

// value = e2m1 * scale * tensor_scale, in fp32. A NaN scale makes its group NaN. `tensor_scale` is a multiplier
// (1 / divisor); MXFP4 has none and wants 1.
template <Format F>
void dequantize(std::span<const uint8_t> codes, std::span<const typename F::Scale> scales, float tensor_scale,
                std::span<float> row);
extern template void dequantize<Mxfp4>(std::span<const uint8_t>, std::span<const E8m0>, float, std::span<float>);
extern template void dequantize<Nvfp4>(std::span<const uint8_t>, std::span<const E4m3>, float, std::span<float>);

// Up to 128 rows of `width` values, in tiles of 128 columns, the last partial: each tile's scale puts its largest value
// at E4M3's largest, 448. A tile of zeros has scale 0 and codes of 0.
void quantize_fp8(std::span<const float> band, size_t width, std::span<E4m3> codes, std::span<float> scales);

// MXFP8 with the smallest scale under which nothing saturates, 2^ceil(log2(amax / 448)); no code is NaN. Of normal
// weights that loses a tenth less than OCP's floor rule, which cuts the largest of every seventh group by up to an
// eighth. A weight above 57,344, for which that scale is above Mxfp8::kMaxScale: ContractError. Back by
// dequantize_mxfp8 (activation.h).
void quantize_mxfp8(std::span<const float> row, std::span<E4m3> codes, std::span<E8m0> scales);

// One row of an FP8 matrix: `scales` are the tile scales of the row's 128-row band, one per 128 of K, the last partial.
void dequantize_fp8(std::span<const E4m3> codes, std::span<const float> scales, std::span<float> row);

}  // namespace nibble::fp4
