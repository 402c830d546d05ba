// The device that tests of whole models run on: the CPU, but for the binary that runs them on a GPU (tests/cuda/).
#pragma once

#include <memory>

#include "base/device.h"

namespace nibble::testing {

const char* device_under_test();                              // as --device takes it
std::unique_ptr<Device> open_device_under_test(int threads);  // `threads`: of a CPU

}  // namespace nibble::testing
