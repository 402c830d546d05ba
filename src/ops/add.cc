#include "ops/add.h"

#include "base/device.h"
#include "ops/check.h"
#include "ops/kernel_table.h"
#include "ops/reference.h"

namespace nibble::ops {
namespace {

bool same_view(const ConstRows& a, const ConstRows& b) { return a.data == b.data && a.stride == b.stride; }

void check(const Add& a) {
  constexpr const char* kOp = "add";
  require(a.out.rows == a.a.rows && a.out.cols == a.a.cols && a.out.dtype == a.a.dtype, kOp, "out is [T, n] like a");
  require(a.b.cols == a.a.cols && a.b.dtype == a.a.dtype, kOp, "b has a's columns and dtype");
  require(a.b.rows == a.a.rows || a.b.rows == 0, kOp, "b has T rows or none");
  require(!overlap(a.out, a.a) || same_view(a.out, a.a), kOp, "out is a or apart from it");
  require(!overlap(a.out, a.b) || same_view(a.out, a.b), kOp, "out is b or apart from it");
}

}  // namespace

void add(Device& device, const Add& args) {
  check(args);
  if (args.out.rows != 0) device.kernels().add(device, args);
}

void reference::add(const Add& args) {
  check(args);
  for (int64_t t = 0; t < args.out.rows; ++t) {
    for (int64_t i = 0; i < args.out.cols; ++i) {
      put(args.out, t, i, get(args.a, t, i) + (args.b.rows == 0 ? 0.0 : get(args.b, t, i)));
    }
  }
}

}  // namespace nibble::ops
