#include "base/device.h"

#include "base/error.h"

namespace nibble {

std::unique_ptr<Device::Recording> Device::record(const std::function<void()>&) {
  throw ContractError("device: " + std::string(name()) + " records nothing");
}

}  // namespace nibble
