#include "ops/situ.h"

#include "base/device.h"
#include "ops/check.h"
#include "ops/kernel_table.h"
#include "ops/reference.h"

namespace nibble::ops {
namespace {

void check(const Situ& a) {
  constexpr const char* kOp = "situ";
  const auto like_gate = [&](const ConstRows& v) {
    return v.rows == a.gate.rows && v.cols == a.gate.cols && v.dtype == a.gate.dtype;
  };
  const auto same_or_apart = [&](const ConstRows& v) {
    return (v.data == a.out.data && v.stride == a.out.stride) || !overlap(a.out, v);
  };
  require(like_gate(a.up) && like_gate(a.out), kOp, "up and out have gate's shape and dtype");
  require(a.beta > 0 && a.linear_beta > 0, kOp, "betas are positive");
  require(same_or_apart(a.gate) && same_or_apart(a.up), kOp, "out is gate, or up, or apart from both");
}

}  // namespace

void situ(Device& device, const Situ& args) {
  check(args);
  if (args.gate.rows != 0) device.kernels().situ(device, args);
}

void reference::situ(const Situ& args) {
  check(args);
  for (int64_t t = 0; t < args.gate.rows; ++t) {
    for (int64_t i = 0; i < args.gate.cols; ++i) {
      put(args.out, t, i, situ_value(get(args.gate, t, i), get(args.up, t, i), args.beta, args.linear_beta));
    }
  }
}

}  // namespace nibble::ops
