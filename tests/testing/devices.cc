#include "testing/devices.h"

#include "cpu/cpu_device.h"
#include "cpu/isa.h"
#include "testing/deferred_device.h"

namespace nibble::testing {

std::vector<DeviceCase> all_devices() {
  std::vector<DeviceCase> out;
  const auto sets = cpu::instruction_sets();
  int best = 0;
  for (int i = 0; i < static_cast<int>(sets.size()); ++i) {
    if (!sets[i].available) continue;
    best = i;
    for (const int threads : {1, 3}) {
      out.push_back({std::string(sets[i].name) + "_" + std::to_string(threads) + "threads",
                     [](const DeviceCase& c) -> std::unique_ptr<Device> {
                       return std::make_unique<cpu::CpuDevice>(*cpu::instruction_sets()[c.isa].kernels, c.threads);
                     },
                     i, threads});
    }
  }
  out.push_back({"deferred",
                 [](const DeviceCase& c) -> std::unique_ptr<Device> {
                   return std::make_unique<DeferredDevice>(*cpu::instruction_sets()[c.isa].kernels);
                 },
                 best, 2});
  return out;
}

}  // namespace nibble::testing
