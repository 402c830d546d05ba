// Seeded weights for a synthetic checkpoint, at the speed of a copy. Only for synth.cc.
//
// Drawing a value costs more than writing it, so rows are cut from pools: for each inner dimension one pool of drawn
// and quantised groups, entered at a place that depends on seed, tensor and row. Codes and scales of a row are cut at
// the same place, so they belong together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "checkpoint/tensor_plan.h"
#include "fp4/weight_format.h"

namespace nibble::checkpoint {

class SynthWeights {
 public:
  SynthWeights(const TensorPlan& plan, fp4::WeightFormat format, uint64_t seed)
      : plan_(plan), format_(format), seed_(seed) {}

  // Bytes of rows [begin, end) of one tensor of the plan; a vector is one row. Thread-safe.
  void fill(int64_t slot, Part part, int64_t begin, int64_t end, std::span<std::byte> out);

 private:
  struct Pool {
    std::vector<std::byte> values;  // bf16, of deviation 1 / sqrt(cols)
    std::vector<std::byte> codes, scales;
    float divisor = 1.0f;
  };
  const Pool& pool(int64_t cols);
  Pool make_pool(int64_t cols) const;
  void fill_vector(int64_t slot, std::span<std::byte> out) const;

  const TensorPlan& plan_;
  fp4::WeightFormat format_;
  uint64_t seed_;
  std::mutex mutex_;
  std::map<int64_t, Pool> pools_;
};

}  // namespace nibble::checkpoint
