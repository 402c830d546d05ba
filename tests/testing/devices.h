// The devices that op tests run on: each instruction set of this machine, with one thread and with several, and the
// deferred device.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/device.h"

namespace nibble::testing {

struct DeviceCase {
  std::string name;  // "avx2_3threads"
  std::unique_ptr<Device> (*make)(const DeviceCase&);
  int isa = 0, threads = 1;
};
std::vector<DeviceCase> all_devices();

// A fixture with `device()`; instantiate with NIBBLE_ON_EVERY_DEVICE.
class OnEveryDevice : public ::testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override { device_ = GetParam().make(GetParam()); }
  Device& device() { return *device_; }

 private:
  std::unique_ptr<Device> device_;
};

#define NIBBLE_ON_EVERY_DEVICE(fixture)                                                             \
  INSTANTIATE_TEST_SUITE_P(Devices, fixture, ::testing::ValuesIn(::nibble::testing::all_devices()), \
                           [](const auto& device_case) { return device_case.param.name; })

}  // namespace nibble::testing
