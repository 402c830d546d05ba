// How fast this machine multiplies and adds: the limit that every figure of prefill is held against.
#pragma once

#include <string_view>

namespace nibble {

struct MultiplyPeak {
  double gflop_per_s = 0.0;  // two operations a multiply-add; the median pass
  int threads = 0;
  std::string_view instruction;  // "vdpbf16ps", "vfmadd231ps (512)", "vfmadd231ps (256)", "mulps and addps"
};

// The fastest multiply-add of bf16 operands into fp32 that this machine has, on registers alone: pairs of bf16 or, once
// they are widened, fp32. About a third of a second for each.
MultiplyPeak measure_multiply_peak(int threads);

}  // namespace nibble
