// The kernels of the CUDA backend.
#pragma once

#include "ops/kernel_table.h"

namespace nibble::cuda {

void add(Device& device, const ops::Add& args);
void attn_res_mix(Device& device, const ops::AttnResMix& args);
void causal_conv_silu(Device& device, const ops::CausalConvSilu& args);
void embedding(Device& device, const ops::Embedding& args);
void gated_rms_norm(Device& device, const ops::GatedRmsNorm& args);
void kda_gate(Device& device, const ops::KdaGate& args);
void kda_rows(Device& device, const ops::KdaRows& args);
void linear(Device& device, const ops::Linear& args);
void mla_append(Device& device, const ops::MlaAppend& args);
void mla_attention(Device& device, const ops::MlaAttention& args);
void moe_experts(Device& device, const ops::MoeExperts& args);
void moe_route(Device& device, const ops::MoeRoute& args);
void rms_norm(Device& device, const ops::RmsNorm& args);
void sample(Device& device, const ops::Sample& args);
void select_rows(Device& device, const ops::SelectRows& args);
void sigmoid_mul(Device& device, const ops::SigmoidMul& args);
void situ(Device& device, const ops::Situ& args);

extern const ops::KernelTable kKernels;

// Scratch, each beside its kernel.
size_t mla_attention_scratch(const Device& device, int64_t latent_dim, int64_t nope_dim, int64_t shared_dim,
                             int64_t value_dim, int64_t max_positions);
size_t moe_experts_scratch(const Device& device, int64_t rows, int64_t top_k, int64_t experts, int64_t latent_dim,
                           int64_t expert_dim);
size_t sample_scratch(const Device& device, int64_t vocabulary);

}  // namespace nibble::cuda
