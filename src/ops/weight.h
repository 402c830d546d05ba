// Weight matrices as kernels see them.
#pragma once

#include <cstdint>

#include "base/view.h"
#include "fp4/format.h"

namespace nibble::ops {

// [rows, cols] = [out, in], row-major, in device memory, in the checkpoint's own byte layout (docs/model.md 3). A value
// is code * scale * tensor_scale.
struct WeightMatrix {
  fp4::WeightFormat format = fp4::WeightFormat::kBf16;
  int64_t rows = 0, cols = 0;
  const void* codes = nullptr;   // values, or two E2M1 codes a byte, the even column in the low nibble
  const void* scales = nullptr;  // E8M0 [rows, cols/32]; E4M3 [rows, cols/16]; fp32 [ceil(rows/128), ceil(cols/128)]
  float tensor_scale = 1.0f;
};

// Columns under one scale of a row, which the columns of a matrix are a multiple of.
constexpr int64_t group_columns(fp4::WeightFormat format) {
  return format == fp4::WeightFormat::kMxfp4   ? fp4::Mxfp4::kGroup
         : format == fp4::WeightFormat::kMxfp8 ? fp4::Mxfp8::kGroup
         : format == fp4::WeightFormat::kNvfp4 ? fp4::Nvfp4::kGroup
                                               : 1;
}

// The same matrix of every expert of a layer; experts lie where the file has them, so each has its own entry.
struct ExpertBank {
  View1<const WeightMatrix> experts;  // [E] in device memory; all of one format and shape
  fp4::WeightFormat format = fp4::WeightFormat::kBf16;
  int64_t rows = 0, cols = 0;
};

}  // namespace nibble::ops
