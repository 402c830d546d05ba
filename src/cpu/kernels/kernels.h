// The kernels of one instruction set.
#pragma once

#include "ops/kernel_table.h"

namespace nibble::cpu::NIBBLE_ISA {

void rms_norm(Device& device, const ops::RmsNorm& args);

}  // namespace nibble::cpu::NIBBLE_ISA
