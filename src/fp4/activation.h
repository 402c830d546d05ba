// Activation quantisers: MXFP8 (E4M3 values, E8M0 scale per 32) and NVFP4 (E2M1 codes, E4M3 scale per 16, one static
// global scale). Which scale recipe is a named parameter: engines differ, and results differ with them (docs/model.md
// 3.5).
//
// A group that holds a NaN or an infinity gets a NaN scale, so its products are NaN and someone notices; its codes are
// zero. Lengths that do not fit: ContractError.
#pragma once

#include <cstdint>
#include <span>

#include "fp4/format.h"

namespace nibble::fp4 {

enum class ScaleRecipe : uint8_t {
  kRoundUp,       // 2^ceil(log2(amax / 448)): nothing saturates; what K3's own kernels use
  kRoundUpFloor,  // the same with amax raised to 1e-4 first (DeepGEMM)
  kOcpFloor,      // 2^(floor(log2(amax)) - 8): values above 448 saturate (OCP MX)
};

// The scale of a group whose largest magnitude is `amax`; computed from its bits, so exact at every boundary.
E8m0 mxfp8_scale(float amax, ScaleRecipe recipe);

void quantize_mxfp8(std::span<const float> row, ScaleRecipe recipe, std::span<E4m3> codes, std::span<E8m0> scales);
void dequantize_mxfp8(std::span<const E4m3> codes, std::span<const E8m0> scales, std::span<float> row);

// How a file states its global scale: compressed-tensors' input_global_scale divides, ModelOpt's input_scale
// multiplies.
enum class GlobalScale : uint8_t { kDivisor, kMultiplier };

// scale = e4m3(amax / 6 * g), code = e2m1(x * g / scale), where g is the divisor; value = code * scale / g.
void quantize_nvfp4_activation(std::span<const float> row, float global, GlobalScale convention,
                               std::span<uint8_t> codes, std::span<E4m3> scales);
void dequantize_nvfp4_activation(std::span<const uint8_t> codes, std::span<const E4m3> scales, float global,
                                 GlobalScale convention, std::span<float> row);

}  // namespace nibble::fp4
