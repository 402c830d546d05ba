// The kernels of the CUDA backend.
#pragma once

#include "ops/kernel_table.h"

namespace nibble::cuda {

#define NIBBLE_KERNEL(op, Args) void op(Device& device, const ops::Args& args);
NIBBLE_OPS(NIBBLE_KERNEL)
#undef NIBBLE_KERNEL

extern const ops::KernelTable kKernels;

// Scratch, each beside its kernel.
size_t mla_attention_scratch(const Device& device, int64_t latent_dim, int64_t nope_dim, int64_t shared_dim,
                             int64_t value_dim, int64_t max_positions);
size_t moe_experts_scratch(const Device& device, int64_t rows, int64_t top_k, int64_t experts, int64_t latent_dim,
                           int64_t expert_dim);
size_t sample_scratch(const Device& device, int64_t vocabulary);

}  // namespace nibble::cuda
