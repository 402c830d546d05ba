// The kernels of one instruction set.
#pragma once

#include "ops/kernel_table.h"

namespace nibble::cpu::NIBBLE_ISA {

#define NIBBLE_KERNEL(op, Args) void op(Device& device, const ops::Args& args);
NIBBLE_OPS(NIBBLE_KERNEL)
#undef NIBBLE_KERNEL

}  // namespace nibble::cpu::NIBBLE_ISA
