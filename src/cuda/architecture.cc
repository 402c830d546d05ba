#include "cuda/architecture.h"

#include "base/error.h"

namespace nibble::cuda {

std::span<const Architecture> architectures() {
  static constexpr Architecture kAll[] = {{"sm_90a", 9, 0, "H100, H200", true},
                                          {"sm_100a", 10, 0, "B200", false},
                                          {"sm_103a", 10, 3, "B300", false},
                                          {"sm_120a", 12, 0, "RTX PRO 6000, RTX 5090", false}};
  return kAll;
}

const Architecture& require_certified(const std::string& device, const std::string& model, int major, int minor) {
  std::string certified, compiled;
  const Architecture* found = nullptr;
  for (const Architecture& a : architectures()) {
    const std::string named = std::string(a.name) + " (" + std::string(a.chips) + ")";
    compiled += (compiled.empty() ? "" : ", ") + named;
    if (a.certified) certified += (certified.empty() ? "" : ", ") + named;
    if (a.major == major && a.minor == minor) found = &a;
  }
  const std::string seen = model + ", compute capability " + std::to_string(major) + "." + std::to_string(minor);
  if (found == nullptr) {
    throw Refusal({.what = "device " + device,
                   .seen = seen,
                   .rule = "this build has code for " + compiled,
                   .fix = "one of these, or device cpu"});
  }
  if (!found->certified) {
    throw Refusal({.what = "device " + device,
                   .seen = seen + ": its kernels compile and have not been certified",
                   .rule = "kernels run where each has been held against its fp64 reference: " + certified,
                   .fix = "one of these, or device cpu"});
  }
  return *found;
}

}  // namespace nibble::cuda
