// The GPU architectures that kernels are compiled for, and which of them have passed certification.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace nibble::cuda {

struct Architecture {
  std::string_view name;  // "sm_90a"
  int major = 0, minor = 0;
  std::string_view chips;  // "H100, H200"
  bool certified = false;  // on such a device every cell of the catalog has passed; others compile and are refused
};

std::span<const Architecture> architectures();

// Throws Refusal for a device that there is no code for, or whose code has not been certified. `device` is what the
// user called it ("cuda:0"), `model` what it calls itself.
const Architecture& require_certified(const std::string& device, const std::string& model, int major, int minor);

}  // namespace nibble::cuda
