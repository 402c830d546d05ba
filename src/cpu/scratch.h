// Scratch of the CPU's kernels, the same for every instruction set.
#pragma once

#include "ops/kernel_table.h"

namespace nibble::cpu {

extern const ops::ScratchSizes kScratch;

}  // namespace nibble::cpu
