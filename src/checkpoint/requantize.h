// Published bf16 matrices in fewer bits: what `--dense` asks for.
#pragma once

#include <cstddef>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace nibble::checkpoint {

// A matrix of our own, in the bytes that a file of its format would hold.
struct HostMatrix {
  fp4::WeightFormat format = fp4::WeightFormat::kBf16;
  std::vector<std::byte> codes, scales;
};

// Whether `source` is bf16 and its columns divide by the groups of `to`.
bool can_requantize(const MatrixSource& source, fp4::WeightFormat to);

// `to`: kMxfp4, kMxfp8, or kFp8Block, whose tile scales put each tile's largest value at 448. Bands of 128 rows go to
// all cores; the bytes do not depend on how many there are. ContractError where can_requantize is false, or for a
// weight that is not finite.
HostMatrix requantize(const MatrixSource& source, fp4::WeightFormat to);

}  // namespace nibble::checkpoint
