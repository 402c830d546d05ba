// Scales that are not numbers, found by reading them. Names the tensor, the row and the group.
#pragma once

#include "checkpoint/weight_form.h"

namespace nibble::checkpoint {

// E8M0 255, E4M3 NaN, an fp32 tile scale that is not finite: the first of the matrix goes to `problems`.
void check_scales(const MatrixSource& matrix, const TensorPlan& plan, int64_t slot, Problems& problems);
// A tensor scale that is NaN, infinite or not above zero, as stored and as its reciprocal.
void check_tensor_scale(const MatrixForm& form, const TensorPlan& plan, int64_t slot, Problems& problems);
// The multiplier that a form's tensor scale stands for; 1 where it has none.
float tensor_multiplier(const MatrixForm& form);
bool usable_multiplier(float scale);

}  // namespace nibble::checkpoint
