#include "ops/gated_rms_norm.h"

#include <cmath>

#include "base/device.h"
#include "ops/check.h"
#include "ops/kernel_table.h"
#include "ops/reference.h"

namespace nibble::ops {
namespace {

void check(const GatedRmsNorm& a) {
  constexpr const char* kOp = "gated_rms_norm";
  require(a.gate.rows == a.x.rows && a.gate.cols == a.x.cols, kOp, "gate is [T, A * V]");
  require(a.out.rows == a.x.rows && a.out.cols == a.x.cols, kOp, "out is [T, A * V]");
  require(a.gate.dtype == a.x.dtype && a.out.dtype == a.x.dtype, kOp, "gate and out have x's dtype");
  require(a.weight.size >= 1 && a.x.cols % a.weight.size == 0, kOp, "columns are a multiple of V");
  require(!overlap(a.out, a.gate), kOp, "out apart from gate");
  require(!overlap(a.out, a.x) || (a.out.data == a.x.data && a.out.stride == a.x.stride), kOp,
          "out is x itself or apart from it");
}

}  // namespace

void gated_rms_norm(Device& device, const GatedRmsNorm& args) {
  check(args);
  if (args.x.rows != 0) device.kernels().gated_rms_norm(device, args);
}

void reference::gated_rms_norm(const GatedRmsNorm& args) {
  check(args);
  const int64_t width = args.weight.size;
  for (int64_t t = 0; t < args.x.rows; ++t) {
    for (int64_t begin = 0; begin < args.x.cols; begin += width) {
      double squares = 0;
      for (int64_t i = 0; i < width; ++i) squares += std::pow(get(args.x, t, begin + i), 2);
      const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + static_cast<double>(args.eps));
      for (int64_t i = 0; i < width; ++i) {
        const double gate = 1 / (1 + std::exp(-get(args.gate, t, begin + i)));
        put(args.out, t, begin + i,
            get(args.x, t, begin + i) * scale * static_cast<double>(args.weight.data[i]) * gate);
      }
    }
  }
}

}  // namespace nibble::ops
