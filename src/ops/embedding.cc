#include "ops/embedding.h"

#include "base/device.h"
#include "ops/check.h"
#include "ops/kernel_table.h"
#include "ops/reference.h"

namespace nibble::ops {
namespace {

void check(const Embedding& a) {
  constexpr const char* kOp = "embedding";
  require(a.table.format == fp4::WeightFormat::kBf16 || a.table.format == fp4::WeightFormat::kF32, kOp,
          "table is bf16 or fp32");
  require(a.out.rows == a.tokens.size && a.out.cols == a.table.cols, kOp, "out is [T, D]");
  require(!overlap(a.out, a.tokens), kOp, "out apart from tokens");
}

}  // namespace

void embedding(Device& device, const Embedding& args) {
  check(args);
  if (args.out.rows != 0) device.kernels().embedding(device, args);
}

void reference::embedding(const Embedding& args) {
  check(args);
  for (int64_t t = 0; t < args.out.rows; ++t) {
    const int32_t token = args.tokens.data[t];
    const bool known = token >= 0 && token < args.table.rows;
    for (int64_t i = 0; i < args.out.cols; ++i) put(args.out, t, i, known ? get(args.table, token, i) : 0.0);
  }
}

}  // namespace nibble::ops
