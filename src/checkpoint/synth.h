// Makes a checkpoint directory of K3's form: published names, dtypes, shapes, order and shards, with seeded weights or
// none. For benchmarks (a few layers of the real widths) and for opening a directory of the real size without its
// 1.56 TB: a sparse twin occupies only its headers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "fp4/weight_format.h"

namespace nibble::checkpoint {

struct SynthOptions {
  std::filesystem::path directory;                       // made if need be; must not hold a checkpoint already
  std::string shape = "kimi-k3";                         // or "k3-tiny"
  int64_t layers = 0, experts = 0;                       // 0: as the shape has
  fp4::WeightFormat format = fp4::WeightFormat::kMxfp4;  // of the routed experts: kMxfp4 or kNvfp4
  bool sparse = false;  // holes instead of weights; with the vision tower, so that nothing is lacking
  uint64_t seed = 1;
  std::function<void(int64_t done_bytes, int64_t total_bytes)> progress;
};

struct SynthReport {
  int64_t shards = 0, tensors = 0, bytes = 0;  // bytes of tensor data, as if written
};

// Throws Refusal for an unknown shape or format, a directory in use, or a disk too small. Weights are near-normal with
// the variance of a fresh layer, so a forward pass stays finite; equal options give equal files.
SynthReport synthesize(const SynthOptions& options);

}  // namespace nibble::checkpoint
