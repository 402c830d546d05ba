// The certifications that catalog() lists, one a file.
#pragma once

#include "ops/certify/certify.h"
#include "ops/kernel_table.h"

namespace nibble::ops::certify {

#define NIBBLE_ENTRY(op, Args) Report op(Device& device);
NIBBLE_OPS(NIBBLE_ENTRY)
#undef NIBBLE_ENTRY

}  // namespace nibble::ops::certify
