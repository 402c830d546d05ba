// The 4-bit formats as traits. A kernel is written once over `Format`; all that differs between formats is here.
//
// Kernel files of one instruction set include this: see e2m1.h.
#pragma once

#include "fp4/e2m1.h"
#include "fp4/e4m3.h"
#include "fp4/e8m0.h"
#include "fp4/weight_format.h"

namespace nibble::fp4 {

struct Mxfp4 {  // OCP MX: docs/model.md 3.2
  static constexpr WeightFormat kFormat = WeightFormat::kMxfp4;
  static constexpr int kGroup = 32;
  using Scale = E8m0;
  static constexpr bool kTensorScale = false;
};

struct Nvfp4 {  // 3.3 and 3.4; the loader turns either naming into a multiplier
  static constexpr WeightFormat kFormat = WeightFormat::kNvfp4;
  static constexpr int kGroup = 16;
  using Scale = E4m3;
  static constexpr bool kTensorScale = true;
};

// Not 4-bit formats but their neighbours: in the same checkpoints E4M3 values with an fp32 scale per 128 x 128 tile,
// and MXFP8, which activations and rewritten projections take.
struct Fp8Block {
  static constexpr WeightFormat kFormat = WeightFormat::kFp8Block;
  static constexpr int kTile = 128;
};

struct Mxfp8 {  // 3.5
  static constexpr WeightFormat kFormat = WeightFormat::kMxfp8;
  static constexpr int kGroup = 32;
  using Scale = E8m0;
  static constexpr E8m0 kMaxScale{134};  // 2^7, of weights: up to 57,344 a kernel needs one factor a code
};

template <class F>
concept Format = F::kGroup % 16 == 0 && sizeof(typename F::Scale) == 1 && requires(typename F::Scale s) {
  to_float(s) + 0.0f;
  is_nan(s) == true;
};

}  // namespace nibble::fp4
