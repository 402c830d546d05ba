#include "fp4/activation.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "fp4/group.h"
#include "fp4/quantize.h"

namespace nibble::fp4 {
namespace {

void check_mxfp8(size_t values, size_t codes, size_t scales) {
  if (values % Mxfp8::kGroup != 0 || codes != values || scales != values / Mxfp8::kGroup) {
    throw ContractError("mxfp8: values and codes [K], scales [K / 32], K a multiple of 32");
  }
}

float divisor_of(float global, GlobalScale convention) {
  if (!(global > 0.0f) || std::isinf(global)) throw ContractError("nvfp4 activations: global scale must be positive");
  return convention == GlobalScale::kDivisor ? global : 1.0f / global;
}

}  // namespace

E8m0 mxfp8_scale(float amax, ScaleRecipe recipe) {
  if (!std::isfinite(amax)) return kE8m0Nan;
  if (recipe == ScaleRecipe::kRoundUpFloor) amax = std::max(amax, 1e-4f);
  const uint32_t u = std::bit_cast<uint32_t>(amax);
  const int exponent = static_cast<int>(u >> 23) - kE4m3MaxExponent;
  // amax / 448 = (1.f / 1.75) * 2^exponent: rounding up adds one exactly when 1.f > 1.75.
  const bool above = recipe != ScaleRecipe::kOcpFloor && (u & 0x007FFFFFu) > 0x00600000u;
  return e8m0_saturated(exponent + (above ? 1 : 0));
}

void quantize_mxfp8(std::span<const float> row, ScaleRecipe recipe, std::span<E4m3> codes, std::span<E8m0> scales) {
  check_mxfp8(row.size(), codes.size(), scales.size());
  for (size_t g = 0; g < scales.size(); ++g) {
    const auto group = row.subspan(g * Mxfp8::kGroup, Mxfp8::kGroup);
    const auto out = codes.subspan(g * Mxfp8::kGroup, Mxfp8::kGroup);
    scales[g] = mxfp8_scale(group_amax(group), recipe);
    const bool finite = !is_nan(scales[g]);
    for (size_t i = 0; i < group.size(); ++i) out[i] = finite ? to_e4m3(group[i] * reciprocal(scales[g])) : E4m3{0};
  }
}

void dequantize_mxfp8(std::span<const E4m3> codes, std::span<const E8m0> scales, std::span<float> row) {
  check_mxfp8(row.size(), codes.size(), scales.size());
  for (size_t k = 0; k < row.size(); ++k) row[k] = to_float(codes[k]) * to_float(scales[k / Mxfp8::kGroup]);
}

void quantize_nvfp4_activation(std::span<const float> row, float global, GlobalScale convention,
                               std::span<uint8_t> codes, std::span<E4m3> scales) {
  check_row<Nvfp4>("quantize_nvfp4_activation", row.size(), codes.size(), scales.size());
  const float divisor = divisor_of(global, convention);
  for (size_t g = 0; g < scales.size(); ++g) {
    const auto group = row.subspan(g * Nvfp4::kGroup, Nvfp4::kGroup);
    const auto out = codes.subspan(g * Nvfp4::kGroup / 2, Nvfp4::kGroup / 2);
    const float amax = group_amax(group);
    scales[g] = std::isfinite(amax) ? to_e4m3(amax / kE2m1Max * divisor) : E4m3{0x7F};
    pack_divided(group, is_nan(scales[g]) ? 0.0f : to_float(scales[g]) / divisor, out);
  }
}

void dequantize_nvfp4_activation(std::span<const uint8_t> codes, std::span<const E4m3> scales, float global,
                                 GlobalScale convention, std::span<float> row) {
  dequantize<Nvfp4>(codes, scales, 1.0f / divisor_of(global, convention), row);
}

}  // namespace nibble::fp4
