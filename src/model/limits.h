// The most that one step may hold. Everything that a step needs is sized from these, once.
#pragma once

#include <cstdint>

#include "base/device.h"
#include "model/k3.h"

namespace nibble::model {

struct StepLimits {
  int64_t rows = 256;  // tokens, of all sequences
  int64_t sequences = 1;
  int64_t sampled = 1;       // rows whose logits are wanted
  int64_t positions = 4096;  // length of a sequence
};

// Bytes that a step's arena needs at most. Found by running the forward pass on a device that does nothing.
size_t step_arena_bytes(const K3& model, const Device& device, DType dtype, const StepLimits& limits);

}  // namespace nibble::model
