#include "backend/open_device.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ops/kernel_table.h"

namespace nibble::backend {
namespace {

Refusal::Parts refusal_of(const DeviceOptions& options) {
  try {
    open_device(options);
  } catch (const Refusal& refusal) {
    return refusal.parts();
  }
  ADD_FAILURE() << options.device << " was opened";
  return {};
}

TEST(OpenDevice, CpuSharesTheHostsMemory) {
  const auto device = open_device({.threads = 1});
  EXPECT_TRUE(device->shares_host_memory());
  EXPECT_GT(device->available_memory(), 1 << 20);
  const std::byte bytes[8] = {};
  EXPECT_EQ(device->adopt(bytes), bytes);
}

TEST(OpenDevice, AnInstructionSetIsTheCpus) {  // so `auto` means the CPU, and a GPU has none
  EXPECT_EQ(open_device({.device = "auto", .isa = "portable", .threads = 1})->name(), "cpu portable");
  EXPECT_EQ(refusal_of({.device = "cuda", .isa = "portable"}).fix.find("device cpu") == std::string::npos, false);
}

TEST(OpenDevice, ACudaDeviceThatIsNotThereIsRefusedByName) {
  const Refusal::Parts parts = refusal_of({.device = "cuda:999"});
  EXPECT_EQ(parts.what, "device cuda:999");
  EXPECT_NE(parts.fix.find("device cpu"), std::string::npos);
}

TEST(OpenDevice, EveryKernelSetIsComplete) {
  for (const KernelSet& set : kernel_sets()) {
    EXPECT_NE(set.kernels->scratch, nullptr) << set.device << " " << set.isa;
    ops::for_each_kernel([&]<auto Member>(const char* name) {
      EXPECT_NE(set.kernels->*Member, nullptr) << set.device << " " << set.isa << ": " << name;
    });
  }
}

}  // namespace
}  // namespace nibble::backend
