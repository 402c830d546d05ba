#include "testing/test_device.h"

#include "backend/open_device.h"

namespace nibble::testing {

std::unique_ptr<Device> open_device_under_test(int threads) {
  return backend::open_device({.device = device_under_test(), .threads = threads});
}

}  // namespace nibble::testing
