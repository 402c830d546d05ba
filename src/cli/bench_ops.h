// The kernels that `nibble bench ops` times: K3's real shapes on synthetic weights, far more of them than caches hold.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/device.h"
#include "base/huge_pages.h"
#include "ops/certify/workspace.h"

namespace nibble::cli {

enum class Limit : uint8_t { kReadBandwidth, kMultiplyAdd, kMultiplyAddF32 };  // of bf16 operands, of fp32
std::string_view name_of(Limit limit);  // "read bandwidth", "multiply-add", "multiply-add of fp32"

// One kernel at one shape. `call(i)` runs it once, on weights that differ from those of call i - 1.
struct OpBench {
  std::function<void(int64_t i)> call;
  Limit limit = Limit::kReadBandwidth;
  double work = 0.0;  // of a call: bytes that it has to read and write, or floating-point operations
};

// Bytes that are taken in turn, and from the beginning again after the last.
class ByteRing {
 public:
  ByteRing(int64_t bytes, uint64_t keep, uint64_t set);  // random bits under `keep`, those of `set` besides
  const std::byte* take(int64_t bytes);

 private:
  HugePages pages_;
  uint64_t keep_, set_, random_ = 1;
  int64_t next_ = 0, filled_ = 0;
};

// What all of them share: bytes that are weights in any format.
class BenchMemory {
 public:
  explicit BenchMemory(Device& device);

  Device& device() const { return device_; }
  ops::certify::Workspace& workspace() { return workspace_; }
  ops::WeightMatrix matrix(fp4::WeightFormat format, int64_t rows, int64_t cols);

 private:
  Device& device_;
  ops::certify::Workspace workspace_;
  ByteRing codes_, e8m0_, e4m3_;
};

// The fixed names, in the order in which they are run; slice.decode is the last and not one of these kernels.
inline constexpr std::string_view kOpBenches[] = {"experts.mxfp4.m1", "experts.nvfp4.m1", "linear.bf16.m1",
                                                  "kda.rows.m1",      "gemm.mxfp4.m128",  "gemm.mxfp4.m512",
                                                  "gemm.bf16.m512",   "kda.rows.m2048",   "slice.decode"};
OpBench make_op_bench(std::string_view name, BenchMemory& memory);

}  // namespace nibble::cli
