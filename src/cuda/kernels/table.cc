// The kernel table: constant data, so a missing kernel shows in a diff.
#include "cuda/kernels/kernels.h"

namespace nibble::cuda {
namespace {

size_t none(const Device&, int64_t, int64_t) { return 0; }  // kda_rows works in shared memory

constexpr ops::ScratchSizes kScratch = {.kda_rows = none,
                                        .mla_attention = mla_attention_scratch,
                                        .moe_experts = moe_experts_scratch,
                                        .sample = sample_scratch};

}  // namespace

const ops::KernelTable kKernels = {
    .name = "cuda",
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

}  // namespace nibble::cuda
