#include "ops/linear.h"

#include "base/device.h"
#include "ops/check.h"
#include "ops/kernel_table.h"
#include "ops/reference.h"

namespace nibble::ops {
namespace {

void check(const Linear& a) {
  constexpr const char* kOp = "linear";
  require(a.part_count >= 1 && a.part_count <= Linear::kMaxParts, kOp, "1 to 8 parts");
  for (int p = 0; p < a.part_count; ++p) {
    const WeightMatrix& w = a.parts[p].weight;
    const Rows& out = a.parts[p].out;
    require(w.cols == a.x.cols, kOp, "weights are [N, K]");
    require(w.cols % group_columns(w.format) == 0, kOp, "K is a multiple of the format's group");
    require(w.format == fp4::WeightFormat::kNvfp4 || w.tensor_scale == 1.0f, kOp, "only NVFP4 has a tensor scale");
    require(out.rows == a.x.rows && out.cols == w.rows, kOp, "outs are [T, N]");
    require(!share_elements(out, a.x), kOp, "outs apart from x");
    for (int q = 0; q < p; ++q) require(!share_elements(out, a.parts[q].out), kOp, "outs apart from each other");
  }
}

}  // namespace

void linear(Device& device, const Linear& args) {
  check(args);
  if (args.x.rows != 0) device.kernels().linear(device, args);
}

void reference::linear(const Linear& args) {
  check(args);
  for (int p = 0; p < args.part_count; ++p) {
    const Linear::Part& part = args.parts[p];
    for (int64_t n = 0; n < part.weight.rows; ++n) {
      for (int64_t t = 0; t < args.x.rows; ++t) put(part.out, t, n, dot(part.weight, n, args.x, t));
    }
  }
}

}  // namespace nibble::ops
