// What a checkpoint holds, by part of the model and by format: what `nibble inspect` prints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace nibble::checkpoint {

struct PartSummary {
  std::string part;                                // "routed experts", "KDA", ..., "vision"
  std::string format;                              // of its matrices and vectors: "mxfp4", "bf16", "f32", "left alone"
  int64_t tensors = 0, parameters = 0, bytes = 0;  // bytes with scales, parameters without
};

struct Summary {
  std::vector<PartSummary> parts;  // by part in the model's order, then by format
  int64_t tensors = 0, bytes = 0;  // of everything
  int64_t text_parameters = 0, all_parameters = 0;
};

Summary summarize(const Checkpoint& checkpoint);

}  // namespace nibble::checkpoint
