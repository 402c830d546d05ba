#include "ops/select_rows.h"

#include "base/device.h"
#include "ops/check.h"
#include "ops/kernel_table.h"
#include "ops/reference.h"

namespace nibble::ops {
namespace {

void check(const SelectRows& a) {
  constexpr const char* kOp = "select_rows";
  require(a.out.rows == a.rows.size && a.out.cols == a.x.cols, kOp, "out is [R, n]");
  require(a.out.dtype == a.x.dtype, kOp, "out has x's dtype");
  require(!overlap(a.out, a.x) && !overlap(a.out, a.rows), kOp, "out apart from the inputs");
}

}  // namespace

void select_rows(Device& device, const SelectRows& args) {
  check(args);
  if (args.out.rows != 0) device.kernels().select_rows(device, args);
}

void reference::select_rows(const SelectRows& args) {
  check(args);
  for (int64_t i = 0; i < args.out.rows; ++i) {
    const int64_t from = args.rows.data[i];
    const bool inside = from >= 0 && from < args.x.rows;
    for (int64_t k = 0; k < args.out.cols; ++k) put(args.out, i, k, inside ? get(args.x, from, k) : 0.0);
  }
}

}  // namespace nibble::ops
