// In which of the known forms a weight matrix is stored, decided by the tensors present and nothing else.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/problems.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_plan.h"

namespace nibble::checkpoint {

struct StoredTensor {
  bool present = false;
  FileDType dtype = FileDType::kU8;
  std::span<const int64_t> shape;
  std::span<const std::byte> bytes;
};
using StoredParts = std::array<StoredTensor, kParts>;

// A matrix as found, but for its tensor scale, whose bytes have not been looked at.
struct MatrixForm {
  MatrixSource source;
  std::span<const std::byte> tensor_scale;  // one fp32, or empty
  bool scale_divides = false;
};

// What is wrong goes to `problems`, under the tensor's published name; the form is then meaningless.
MatrixForm matrix_form(const TensorPlan& plan, int64_t slot, const StoredParts& parts, Problems& problems);
// A vector or small fp32 tensor; a padded one is narrowed and its padding checked.
VectorSource vector_form(const TensorPlan& plan, int64_t slot, const StoredParts& parts, Problems& problems);

std::string shape_text(std::span<const int64_t> shape);

}  // namespace nibble::checkpoint
