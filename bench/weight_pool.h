// Matrices for benches: more bytes than any cache holds, and the same finite weight everywhere, for what weights are
// worth does not change the time.
#pragma once

#include <vector>

#include "bench/op_work.h"

namespace nibble {

class WeightPool {
 public:
  // As many matrices as fill `bytes`, at least two; they share no byte.
  WeightPool(fp4::WeightFormat format, int64_t rows, int64_t cols, int64_t bytes = int64_t{512} << 20) {
    const int64_t group = ops::group_columns(format), values = rows * cols;
    const auto size = static_cast<int64_t>(weight_bytes(format, rows, cols));
    const int64_t codes = group == 1 ? size : size - values / group;
    constexpr int64_t kTile = fp4::Fp8Block::kTile;
    const int64_t tiles = (rows + kTile - 1) / kTile * ((cols + kTile - 1) / kTile);
    const bool fp32_scales = format == fp4::WeightFormat::kFp8Block;
    const int64_t scales = fp32_scales ? tiles * 4 : group == 1 ? 0 : values / group;
    const int64_t count = std::max<int64_t>(2, bytes / size);
    codes_.resize(static_cast<size_t>(codes * count), std::byte{0x3C});  // 1.5 in E4M3, a hundredth in bf16
    scales_.resize(static_cast<size_t>(scales * count), std::byte{0x3C});
    for (int64_t i = 0; i < count; ++i) {
      matrices_.push_back({format, rows, cols, codes_.data() + i * codes, scales_.data() + i * scales});
    }
  }
  // The i-th of an endless row of them.
  const ops::WeightMatrix& at(int64_t i) const { return matrices_[static_cast<size_t>(i) % matrices_.size()]; }

 private:
  std::vector<std::byte> codes_, scales_;
  std::vector<ops::WeightMatrix> matrices_;
};

}  // namespace nibble
