// Workspaces of workers: apart from each other, aligned, and as large as was asked for, also beyond what is taken at
// once.
#include "cpu/cpu_device.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "cpu/isa.h"

namespace nibble::cpu {
namespace {

TEST(CpuDevice, WorkspacesAreTheWorkersOwn) {
  constexpr int kThreads = 3;
  CpuDevice device(*best_isa().kernels, kThreads);
  for (const size_t bytes : {size_t{64}, size_t{1} << 20, size_t{40} << 20, size_t{192}}) {
    const CpuDevice::Workspaces all = device.workspaces(bytes);
    for (int w = 0; w < kThreads; ++w) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(all[w]) % 64, 0u);
      std::memset(all[w], w + 1, bytes);
    }
    for (int w = 0; w < kThreads; ++w) {
      EXPECT_EQ(static_cast<int>(all[w][0]), w + 1) << bytes;
      EXPECT_EQ(static_cast<int>(all[w][bytes - 1]), w + 1) << bytes;
    }
  }
}

// So that no step allocates; one that asks for more has it from then on.
TEST(CpuDevice, WorkspacesMoveOnlyToGrow) {
  CpuDevice device(*best_isa().kernels, 2);
  device.take_workspaces();
  const std::byte* const usual = device.workspaces(64)[0];
  EXPECT_EQ(device.workspaces(size_t{8} << 20)[0], usual);
  const std::byte* const grown = device.workspaces(size_t{64} << 20)[0];
  EXPECT_NE(grown, nullptr);
  EXPECT_EQ(device.workspaces(size_t{64} << 20)[0], grown);
  EXPECT_EQ(device.workspaces(64)[0], grown);
}

}  // namespace
}  // namespace nibble::cpu
