// The kernel table of one instruction set: constant data, so a missing kernel shows in a diff.
#include "cpu/kernels/kernels.h"

#define NIBBLE_NAME_(x) #x
#define NIBBLE_NAME(x)  NIBBLE_NAME_(x)

namespace nibble::cpu::NIBBLE_ISA {

extern const ops::KernelTable kKernels;
const ops::KernelTable kKernels = {
    .name = NIBBLE_NAME(NIBBLE_ISA),
    .add = add,
    .attn_res_mix = attn_res_mix,
    .mla_append = mla_append,
    .mla_attention = mla_attention,
    .rms_norm = rms_norm,
    .sample = sample,
    .select_rows = select_rows,
    .sigmoid_mul = sigmoid_mul,
};

}  // namespace nibble::cpu::NIBBLE_ISA
