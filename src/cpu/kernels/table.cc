// The kernel table of one instruction set: constant data, so a missing kernel shows in a diff.
#include "cpu/kernels/kernels.h"
#include "cpu/scratch.h"

#define NIBBLE_NAME_(x) #x
#define NIBBLE_NAME(x)  NIBBLE_NAME_(x)

namespace nibble::cpu::NIBBLE_ISA {

extern const ops::KernelTable kKernels;
const ops::KernelTable kKernels = {
    .name = NIBBLE_NAME(NIBBLE_ISA),
    .add = add,
    .attn_res_mix = attn_res_mix,
    .causal_conv_silu = causal_conv_silu,
    .embedding = embedding,
    .gated_rms_norm = gated_rms_norm,
    .kda_gate = kda_gate,
    .kda_rows = kda_rows,
    .linear = linear,
    .mla_append = mla_append,
    .mla_attention = mla_attention,
    .moe_experts = moe_experts,
    .moe_route = moe_route,
    .rms_norm = rms_norm,
    .sample = sample,
    .select_rows = select_rows,
    .sigmoid_mul = sigmoid_mul,
    .situ = situ,
    .scratch = &kScratch,
};

}  // namespace nibble::cpu::NIBBLE_ISA
