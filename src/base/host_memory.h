// How much memory the machine could give.
#pragma once

#include <cstdint>

namespace nibble {

// What the kernel says it could give without swapping, in bytes.
int64_t available_host_memory();

}  // namespace nibble
