#include "fp4/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "base/error.h"
#include "fp4/activation.h"
#include "fp4/group.h"

namespace nibble::fp4 {
namespace {

float finite_amax(std::span<const float> group, const char* who) {
  const float amax = group_amax(group);
  if (!std::isfinite(amax)) throw ContractError(std::string(who) + ": weights must be finite");
  return amax;
}

}  // namespace

void quantize_mxfp4(std::span<const float> row, std::span<uint8_t> codes, std::span<E8m0> scales) {
  check_row<Mxfp4>("quantize_mxfp4", row.size(), codes.size(), scales.size());
  for (size_t g = 0; g < scales.size(); ++g) {
    const auto group = row.subspan(g * Mxfp4::kGroup, Mxfp4::kGroup);
    const float amax = finite_amax(group, "quantize_mxfp4");
    scales[g] = e8m0_saturated(static_cast<int>(std::bit_cast<uint32_t>(amax) >> 23) - kE2m1MaxExponent);
    pack_scaled(group, reciprocal(scales[g]), codes.subspan(g * Mxfp4::kGroup / 2, Mxfp4::kGroup / 2));
  }
}

float nvfp4_divisor(float amax) { return kE4m3Max * kE2m1Max / std::max(amax, 1e-12f); }

void quantize_nvfp4(std::span<const float> row, float divisor, std::span<uint8_t> codes, std::span<E4m3> scales) {
  check_row<Nvfp4>("quantize_nvfp4", row.size(), codes.size(), scales.size());
  for (size_t g = 0; g < scales.size(); ++g) {
    const auto group = row.subspan(g * Nvfp4::kGroup, Nvfp4::kGroup);
    scales[g] = to_e4m3(finite_amax(group, "quantize_nvfp4") / kE2m1Max * divisor);
    pack_divided(group, to_float(scales[g]) / divisor, codes.subspan(g * Nvfp4::kGroup / 2, Nvfp4::kGroup / 2));
  }
}

template <Format F>
void dequantize(std::span<const uint8_t> codes, std::span<const typename F::Scale> scales, float tensor_scale,
                std::span<float> row) {
  check_row<F>("dequantize", row.size(), codes.size(), scales.size());
  if (!F::kTensorScale && tensor_scale != 1.0f) throw ContractError("dequantize: this format has no tensor scale");
  for (size_t k = 0; k < row.size(); k += 2) {
    const float scale = to_float(scales[k / F::kGroup]) * tensor_scale;
    row[k] = to_float(unpack_even(codes[k / 2])) * scale;
    row[k + 1] = to_float(unpack_odd(codes[k / 2])) * scale;
  }
}
template void dequantize<Mxfp4>(std::span<const uint8_t>, std::span<const E8m0>, float, std::span<float>);
template void dequantize<Nvfp4>(std::span<const uint8_t>, std::span<const E4m3>, float, std::span<float>);

void quantize_fp8(std::span<const float> band, size_t width, std::span<E4m3> codes, std::span<float> scales) {
  constexpr size_t kTile = Fp8Block::kTile;
  if (width == 0 || band.size() % width != 0 || band.size() > kTile * width || codes.size() != band.size() ||
      scales.size() != (width + kTile - 1) / kTile) {
    throw ContractError("quantize_fp8: up to 128 rows, as many codes, scales [ceil(K / 128)]");
  }
  std::fill(scales.begin(), scales.end(), 0.0f);
  for (size_t row = 0; row < band.size(); row += width) {
    for (size_t k = 0; k < width; k += kTile) {
      const float amax = finite_amax(band.subspan(row + k, std::min(kTile, width - k)), "quantize_fp8");
      scales[k / kTile] = std::max(scales[k / kTile], amax / kE4m3Max);
    }
  }
  for (size_t i = 0; i < band.size(); ++i) {
    const float scale = scales[i % width / kTile];
    codes[i] = scale == 0 ? E4m3{} : to_e4m3(band[i] / scale);
  }
}

void quantize_mxfp8(std::span<const float> row, std::span<E4m3> codes, std::span<E8m0> scales) {
  if (finite_amax(row, "quantize_mxfp8") > kE4m3Max * to_float(Mxfp8::kMaxScale)) {
    throw ContractError("quantize_mxfp8: weights up to 57344");
  }
  quantize_mxfp8(row, ScaleRecipe::kRoundUp, codes, scales);
}

void dequantize_fp8(std::span<const E4m3> codes, std::span<const float> scales, std::span<float> row) {
  if (codes.size() != row.size() || scales.size() != (row.size() + Fp8Block::kTile - 1) / Fp8Block::kTile) {
    throw ContractError("dequantize_fp8: codes [K], scales [ceil(K / 128)]");
  }
  for (size_t k = 0; k < row.size(); ++k) row[k] = to_float(codes[k]) * scales[k / Fp8Block::kTile];
}

}  // namespace nibble::fp4
