// Matrices for benches: more bytes than any cache holds, and the same finite weight everywhere, for what weights are
// worth does not change the time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "fp4/weight_bytes.h"
#include "ops/weight.h"

namespace nibble {

class WeightPool {
 public:
  // As many matrices as fill `bytes`, at least two; they share no byte.
  WeightPool(fp4::WeightFormat format, int64_t rows, int64_t cols, int64_t bytes = int64_t{512} << 20) {
    const int64_t codes = fp4::code_bytes(format, rows, cols), scales = fp4::scale_bytes(format, rows, cols);
    const int64_t count = std::max<int64_t>(2, bytes / (codes + scales));
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
