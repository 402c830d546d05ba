#include "ops/rms_norm.h"

#include <cmath>
#include <vector>

#include "base/device.h"
#include "ops/check.h"
#include "ops/kernel_table.h"
#include "ops/reference.h"

namespace nibble::ops {
namespace {

void check(const RmsNorm& a) {
  constexpr const char* kOp = "rms_norm";
  require(a.out.rows == a.x.rows && a.out.cols == a.x.cols, kOp, "out is [T, n]");
  require(a.out.dtype == a.x.dtype, kOp, "out has x's dtype");
  require(a.weight.size == a.x.cols, kOp, "weight is [n]");
  require(!overlap(a.out, a.x), kOp, "out apart from x");
}

}  // namespace

void rms_norm(Device& device, const RmsNorm& args) {
  check(args);
  if (args.x.rows != 0) device.kernels().rms_norm(device, args);
}

void reference::rms_norm(const RmsNorm& args) {
  check(args);
  const int64_t n = args.x.cols;
  for (int64_t t = 0; t < args.x.rows; ++t) {
    double squares = 0;
    for (int64_t i = 0; i < n; ++i) squares += std::pow(get(args.x, t, i), 2);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + static_cast<double>(args.eps));
    for (int64_t i = 0; i < n; ++i) {
      const double normalised = landed(get(args.x, t, i) * scale, args.out.dtype);
      put(args.out, t, i, normalised * static_cast<double>(args.weight.data[i]));
    }
  }
}

}  // namespace nibble::ops
