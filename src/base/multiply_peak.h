// How fast this machine multiplies and adds: the limit that every figure of prefill is held against.
#pragma once

#include <cstdint>
#include <string_view>

namespace nibble {

struct MultiplyPeak {
  double gflop_per_s = 0.0;  // two operations a multiply-add; the median pass
  int threads = 0;
  // "tdpbf16ps", "vdpbf16ps", "vfmadd231ps (512)", "vfmadd231ps (256)", "mulps and addps"
  std::string_view instruction;
};

enum class Operands : uint8_t { kF32, kBf16 };

// The fastest multiply-add of such operands into fp32 that this machine has, on registers alone. Those of bf16 meet in
// matrix tiles, in pairs or, once they are widened, as fp32. About a third of a second for each.
MultiplyPeak measure_multiply_peak(int threads, Operands operands = Operands::kBf16);

}  // namespace nibble
