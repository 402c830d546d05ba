// Names to devices: the one place that knows which backends this build has.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/device.h"

namespace nibble::backend {

struct DeviceOptions {
  std::string device = "cpu";
  std::string isa;  // "portable", "avx2", "avx512", "avx512bf16"; empty: the best that this machine has
  int threads = 0;  // 0: one a physical core that this process may use
};

// Throws Refusal for a device, an instruction set or a thread count that cannot be had. Never falls back in silence.
std::unique_ptr<Device> open_device(const DeviceOptions& options);

// The kernels of this build, one entry a device and instruction set, from the slowest to the fastest.
struct KernelSet {
  std::string_view device, isa;
  const ops::KernelTable* kernels = nullptr;
  bool available = false;  // on this machine
  std::string_view needs;  // what a machine must have
};
std::vector<KernelSet> kernel_sets();

// Cores that this process may run on, hardware threads of one core counted once.
int physical_cores();

}  // namespace nibble::backend
