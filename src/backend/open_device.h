// Names to devices: the one place that knows which backends this build has.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/numa.h"
#include "base/device.h"

namespace nibble::backend {

// Whether threads stay on processors of their own. By itself where nibble chose their number, so that it has the
// machine to itself, and the machine has several NUMA nodes, between which a thread that moves leaves its memory
// behind.
enum class Pinning : uint8_t { kAuto, kOn, kOff };
Pinning parse_pinning(const std::string& name);  // "auto", "on", "off"; throws Refusal

struct DeviceOptions {
  std::string device = "cpu";        // "cpu", "cuda", "cuda:N", "auto"
  std::string isa;                   // of the CPU: "portable", "avx2", "avx512", "avx512bf16", "amx"; empty: the best
  int threads = 0;                   // of the CPU; 0: one a physical core that this process may use
  Pinning pinning = Pinning::kAuto;  // of the CPU's threads
  Numa numa = Numa::kAuto;           // what place_memory does
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

// The processor of each thread of such a device, empty where they are not pinned.
std::vector<int> pinned_processors(const DeviceOptions& options);

// Which NUMA nodes the memory of such a device goes to. A GPU's weights lie in its own: none.
MemoryPlan planned_memory(const DeviceOptions& options);

// Does so, for the calling thread and all that it starts from then on: to be called before the device is opened, by the
// thread that loads the model. A system that refuses (a container may) is no reason to fail: returns one line that says
// so, for people, and is empty where all is well. Throws Refusal for a thread count that cannot be had.
std::string place_memory(const DeviceOptions& options);

// Cores that this process may run on, hardware threads of one core counted once.
int physical_cores();

}  // namespace nibble::backend
