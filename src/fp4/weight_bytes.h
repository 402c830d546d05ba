// How many bytes a weight matrix takes in the checkpoint's layout (docs/model.md 3), by its format.
#pragma once

#include <cstdint>

#include "fp4/format.h"

namespace nibble::fp4 {

// Of the codes, or of the plain values, of [rows, cols].
constexpr int64_t code_bytes(WeightFormat format, int64_t rows, int64_t cols) {
  switch (format) {
    case WeightFormat::kF32: return rows * cols * 4;
    case WeightFormat::kBf16: return rows * cols * 2;
    case WeightFormat::kMxfp4:
    case WeightFormat::kNvfp4: return rows * cols / 2;
    case WeightFormat::kFp8Block:
    case WeightFormat::kMxfp8: return rows * cols;
  }
  return 0;
}

// Of the scales that lie beside them; NVFP4's scalars, which a tensor has once, are not among them.
constexpr int64_t scale_bytes(WeightFormat format, int64_t rows, int64_t cols) {
  constexpr int64_t kTile = Fp8Block::kTile;
  switch (format) {
    case WeightFormat::kF32:
    case WeightFormat::kBf16: return 0;
    case WeightFormat::kMxfp4: return rows * cols / Mxfp4::kGroup;
    case WeightFormat::kNvfp4: return rows * cols / Nvfp4::kGroup;
    case WeightFormat::kMxfp8: return rows * cols / Mxfp8::kGroup;
    case WeightFormat::kFp8Block: return (rows + kTile - 1) / kTile * ((cols + kTile - 1) / kTile) * 4;
  }
  return 0;
}

}  // namespace nibble::fp4
