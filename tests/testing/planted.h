// Faults planted between the model and its kernels, for negative controls on any device: each must break the goldens by
// far more than their budget, or the check of the goldens could not have caught it.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/device.h"
#include "ops/kernel_table.h"

namespace nibble::testing {

struct PlantedFault {
  const char* name;
  void (*plant)(ops::KernelTable& kernels);
};
// They change arguments and device memory by the device's own means only.
std::span<const PlantedFault> planted_faults();
// `good` with the fault; good must outlive its use, and so must no second table of this kind be in use.
ops::KernelTable with_fault(const ops::KernelTable& good, const PlantedFault& fault);

// The largest error of the last logits of the second golden prompt in fp32, fed in two chunks. `directory` has the
// model of `format`, if it is not the bundled one.
float golden_error(std::unique_ptr<Device> device, const std::string& format = "mxfp4",
                   const std::string& directory = "");

constexpr float kGoldenBudget = 2e-3f;               // of the largest logit error in fp32
constexpr float kVisibleError = 10 * kGoldenBudget;  // what a control must exceed

}  // namespace nibble::testing
