#include "ops/sigmoid_mul.h"

#include <cmath>

#include "base/device.h"
#include "ops/check.h"
#include "ops/kernel_table.h"
#include "ops/reference.h"

namespace nibble::ops {
namespace {

void check(const SigmoidMul& a) {
  constexpr const char* kOp = "sigmoid_mul";
  require(a.gate.rows == a.x.rows && a.gate.cols == a.x.cols && a.gate.dtype == a.x.dtype, kOp,
          "gate is [T, n] like x");
  require(a.out.rows == a.x.rows && a.out.cols == a.x.cols && a.out.dtype == a.x.dtype, kOp, "out is [T, n] like x");
  require(!overlap(a.out, a.gate), kOp, "out apart from gate");
  require(!overlap(a.out, a.x) || (a.out.data == a.x.data && a.out.stride == a.x.stride), kOp,
          "out is x or apart from it");
}

}  // namespace

void sigmoid_mul(Device& device, const SigmoidMul& args) {
  check(args);
  if (args.out.rows != 0) device.kernels().sigmoid_mul(device, args);
}

void reference::sigmoid_mul(const SigmoidMul& args) {
  check(args);
  for (int64_t t = 0; t < args.out.rows; ++t) {
    for (int64_t i = 0; i < args.out.cols; ++i) {
      const double gate = 1 / (1 + std::exp(-get(args.gate, t, i)));
      const double factor = args.out.dtype == DType::kBf16 ? landed(gate, DType::kBf16) : gate;
      put(args.out, t, i, get(args.x, t, i) * factor);
    }
  }
}

}  // namespace nibble::ops
