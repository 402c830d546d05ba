// The kernel table of one instruction set: constant data, so a missing kernel shows in a diff.
#include "cpu/kernels/kernels.h"

#define NIBBLE_NAME_(x) #x
#define NIBBLE_NAME(x)  NIBBLE_NAME_(x)

namespace nibble::cpu::NIBBLE_ISA {

extern const ops::KernelTable kKernels;
const ops::KernelTable kKernels = {
    .name = NIBBLE_NAME(NIBBLE_ISA),
    .causal_conv_silu = causal_conv_silu,
    .gated_rms_norm = gated_rms_norm,
    .kda_gate = kda_gate,
    .kda_rows = kda_rows,
    .rms_norm = rms_norm,
};

}  // namespace nibble::cpu::NIBBLE_ISA
