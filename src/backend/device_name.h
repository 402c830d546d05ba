// What a user may call a device.
#pragma once

#include <string>

namespace nibble::backend {

struct DeviceName {
  std::string kind;  // "cpu", "cuda", "auto"
  int index = 0;     // of a cuda device
};

// "cpu", "cuda", "cuda:N", "auto". Throws Refusal for anything else.
DeviceName parse_device(const std::string& name);

}  // namespace nibble::backend
