#include "ops/causal_conv_silu.h"

#include <cmath>
#include <vector>

#include "base/device.h"
#include "ops/check.h"
#include "ops/kernel_table.h"
#include "ops/reference.h"

namespace nibble::ops {
namespace {

void check(const CausalConvSilu& a) {
  constexpr const char* kOp = "causal_conv_silu";
  const int64_t taps = a.weight.cols, sequences = a.sequences.slot.size;
  require(a.out.rows == a.x.rows && a.out.cols == a.x.cols, kOp, "out is [T, C]");
  require(a.out.dtype == a.x.dtype && a.window.dtype == a.x.dtype, kOp, "out and window have x's dtype");
  require(taps >= 2 && taps <= kMaxConvTaps, kOp, "taps in 2..8");
  require(a.weight.rows == a.x.cols, kOp, "weight is [C, taps]");
  require(a.window.cols == a.x.cols && a.window.rows % (taps - 1) == 0, kOp, "window is [slots * (taps - 1), C]");
  require(a.sequences.row_begin.size == sequences + 1 && a.sequences.position.size == sequences, kOp,
          "row_begin is [S + 1], position and slot are [S]");
  require(!overlap(a.out, a.x) && !overlap(a.out, a.window) && !overlap(a.window, a.x), kOp,
          "x, window and out apart from each other");
}

}  // namespace

void causal_conv_silu(Device& device, const CausalConvSilu& args) {
  check(args);
  if (args.x.rows != 0) device.kernels().causal_conv_silu(device, args);
}

void reference::causal_conv_silu(const CausalConvSilu& args) {
  check(args);
  const int64_t history = args.weight.cols - 1;
  for (int64_t s = 0; s < args.sequences.slot.size; ++s) {
    const int64_t begin = args.sequences.row_begin.data[s], rows = args.sequences.row_begin.data[s + 1] - begin;
    const int64_t position = args.sequences.position.data[s], window = args.sequences.slot.data[s] * history;
    if (rows == 0) continue;
    for (int64_t c = 0; c < args.x.cols; ++c) {
      std::vector<double> inputs;  // the window, then the step's own
      for (int64_t i = 0; i < history; ++i) {
        inputs.push_back(position - history + i >= 0 ? get(args.window, window + i, c) : 0.0);
      }
      for (int64_t i = 0; i < rows; ++i) inputs.push_back(get(args.x, begin + i, c));
      for (int64_t i = 0; i < rows; ++i) {
        double y = 0;
        for (int64_t j = 0; j <= history; ++j) {
          y += static_cast<double>(args.weight.row(c)[j]) * inputs[static_cast<size_t>(i + j)];
        }
        put(args.out, begin + i, c, y / (1 + std::exp(-y)));
      }
      for (int64_t i = 0; i < history; ++i) put(args.window, window + i, c, inputs[static_cast<size_t>(rows + i)]);
    }
  }
}

}  // namespace nibble::ops
