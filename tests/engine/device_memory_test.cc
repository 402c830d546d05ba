// A device with memory of its own: what does not fit is refused before a byte is loaded, with the numbers.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "cpu/isa.h"
#include "engine/memory_plan.h"
#include "engine/problems.h"
#include "testing/deferred_device.h"

namespace nibble::engine {
namespace {

class DeviceMemoryTest : public ::testing::Test {
 protected:
  DeviceMemoryTest() : device_(*cpu::best_isa().kernels), checkpoint_(checkpoint::Checkpoint::open(model_directory())) {
    options_.model = model_directory();
    options_.device = "cuda";
    options_.context = 512;
    options_.max_sequences = 4;
  }
  // What a run is refused for with so much memory; empty where it is not.
  std::string fault_with(int64_t available) {
    device_.set_available_memory(available);
    try {
      check_memory(options_, checkpoint_, device_);
    } catch (const Refusal& refusal) {
      return refusal.what();
    }
    return "";
  }

  testing::DeferredDevice device_;
  checkpoint::Checkpoint checkpoint_;
  EngineOptions options_;
};

TEST_F(DeviceMemoryTest, WeightsThatDoNotFitAreRefusedWithTheirBytes) {
  const std::string fault = fault_with(1 << 20);
  EXPECT_NE(fault.find("1048576 bytes free"), std::string::npos) << fault;
  EXPECT_NE(fault.find("the weights need 1"), std::string::npos) << fault;
  EXPECT_EQ(device_.enqueued(), 0);
}

TEST_F(DeviceMemoryTest, SoIsACacheThatDoesNotFit) {
  options_.cache_bytes = int64_t{1} << 30;
  options_.max_sequences = 64;
  const std::string fault = fault_with(int64_t{40} << 20);
  EXPECT_NE(fault.find("the cache "), std::string::npos) << fault;
  EXPECT_NE(fault.find("bytes in all"), std::string::npos) << fault;
}

TEST_F(DeviceMemoryTest, WhatFitsIsTakenAndNoMore) {  // the least that passes is enough for all that is then allocated
  int64_t least = 0, enough = int64_t{1} << 30;
  options_.cache_bytes = int64_t{32} << 20;
  ASSERT_EQ(fault_with(enough), "");
  while (enough - least > 1) {
    const int64_t middle = least + (enough - least) / 2;
    (fault_with(middle).empty() ? enough : least) = middle;
  }
  device_.set_available_memory(enough);
  const int64_t before = device_.allocated();
  const model::K3 model = model::K3::load(checkpoint_, device_);
  const Runner runner(device_, model, plan_runner(options_, model, 0, 0).options);
  EXPECT_LE(device_.allocated() - before, enough);
  EXPECT_GT(device_.allocated() - before, enough - (int64_t{4} << 20));  // and not much more was asked for
}

// Bytes of the model's files that this process holds in memory.
int64_t resident_bytes() {
  const std::string directory = std::filesystem::canonical(model_directory()).string();
  std::ifstream maps("/proc/self/smaps");
  int64_t kb = 0;
  bool of_model = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(':')) of_model = line.find(directory) != std::string::npos;
    if (of_model && line.starts_with("Rss:")) kb += std::stoll(line.substr(4));
  }
  return kb * 1024;
}

// What was copied, to a device or in other formats, does not stay in host memory too.
TEST_F(DeviceMemoryTest, WeightsThatWereCopiedLeaveHostMemory) {
  int64_t bytes = 0;
  for (const auto& tensor : checkpoint_.tensors()) bytes += static_cast<int64_t>(tensor.bytes.size());
  const auto touch_all = [&] {
    [[maybe_unused]] volatile std::byte seen{};
    for (const auto& tensor : checkpoint_.tensors()) {
      for (size_t i = 0; i < tensor.bytes.size(); i += 4096) seen = tensor.bytes[i];
    }
    return resident_bytes();
  };
  EXPECT_GT(touch_all(), bytes / 2);
  device_.set_available_memory(int64_t{1} << 30);
  const model::K3 copied = model::K3::load(checkpoint_, device_);
  EXPECT_LT(resident_bytes(), bytes / 8);

  cpu::CpuDevice host(*cpu::best_isa().kernels, 1);
  EXPECT_GT(touch_all(), bytes / 2);
  const model::K3 mapped = model::K3::load(checkpoint_, host);
  EXPECT_GT(resident_bytes(), bytes / 2);  // they are the weights
  const model::K3 rewritten = model::K3::load(checkpoint_, host, {.dense = fp4::WeightFormat::kFp8Block});
  EXPECT_LT(resident_bytes(), bytes / 8);
}

TEST_F(DeviceMemoryTest, SharedMemoryNeedsNoCopy) {
  cpu::CpuDevice host(*cpu::best_isa().kernels, 1);
  EXPECT_NO_THROW(check_memory(options_, checkpoint_, host));
}

}  // namespace
}  // namespace nibble::engine
