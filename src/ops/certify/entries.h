// The certifications that catalog() lists, one a file.
#pragma once

#include "ops/certify/certify.h"

namespace nibble::ops::certify {

Report rms_norm(Device& device);

}  // namespace nibble::ops::certify
