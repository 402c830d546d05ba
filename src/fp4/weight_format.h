// How a weight matrix is stored. Loaders and kernel tables name these; the model never does.
#pragma once

#include <cstdint>

namespace nibble::fp4 {

enum class WeightFormat : uint8_t {
  kF32,
  kBf16,
  kMxfp4,     // E2M1 codes, an E8M0 scale per 32 of K
  kNvfp4,     // E2M1 codes, an E4M3 scale per 16 of K, one fp32 multiplier a tensor
  kFp8Block,  // E4M3 values, an fp32 scale per 128 x 128 tile
  kMxfp8,     // E4M3 codes, an E8M0 scale per 32 of K
};
constexpr int kWeightFormats = 6;

constexpr const char* name_of(WeightFormat f) {
  switch (f) {
    case WeightFormat::kF32: return "f32";
    case WeightFormat::kBf16: return "bf16";
    case WeightFormat::kMxfp4: return "mxfp4";
    case WeightFormat::kNvfp4: return "nvfp4";
    case WeightFormat::kFp8Block: return "fp8-block";
    case WeightFormat::kMxfp8: return "mxfp8";
  }
  return "?";
}

}  // namespace nibble::fp4
