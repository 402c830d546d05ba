// The one list of kernels a backend may offer. A null entry means "this backend has none".
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

// The catalog: each op's name and its arguments. What has to name all of them is made from this: a kernel that a
// backend lacks does not link.
// clang-format off
#define NIBBLE_OPS(OP)                  \
  OP(add, Add)                          \
  OP(attn_res_mix, AttnResMix)          \
  OP(causal_conv_silu, CausalConvSilu)  \
  OP(embedding, Embedding)              \
  OP(gated_rms_norm, GatedRmsNorm)      \
  OP(kda_gate, KdaGate)                 \
  OP(kda_rows, KdaRows)                 \
  OP(linear, Linear)                    \
  OP(mla_append, MlaAppend)             \
  OP(mla_attention, MlaAttention)       \
  OP(moe_experts, MoeExperts)           \
  OP(moe_route, MoeRoute)               \
  OP(rms_norm, RmsNorm)                 \
  OP(sample, Sample)                    \
  OP(select_rows, SelectRows)           \
  OP(sigmoid_mul, SigmoidMul)           \
  OP(situ, Situ)
// clang-format on

namespace nibble {
class Device;
namespace ops {

#define NIBBLE_ARGUMENTS(op, Args) struct Args;
NIBBLE_OPS(NIBBLE_ARGUMENTS)
#undef NIBBLE_ARGUMENTS

// A kernel takes arguments that its op's dispatcher has checked, and decides nothing. Arguments are plain values and
// device views, so they may be copied and run later.
template <class Args>
using Kernel = void (*)(Device&, const Args&);

// Bytes of scratch that kernels want; a shape's largest is an upper bound for smaller ones. How they are laid out is
// the kernels' own business. A device may be another than the one that runs them (a plan is made on one that does
// nothing), so only its concurrency counts.
struct ScratchSizes {
  size_t (*kda_rows)(const Device&, int64_t key_dim, int64_t value_dim);
  size_t (*mla_attention)(const Device&, int64_t latent_dim, int64_t nope_dim, int64_t shared_dim, int64_t value_dim,
                          int64_t max_positions);
  size_t (*moe_experts)(const Device&, int64_t rows, int64_t top_k, int64_t experts, int64_t latent_dim,
                        int64_t expert_dim);
  size_t (*sample)(const Device&, int64_t vocabulary);
};

struct KernelTable {
  const char* name = nullptr;  // "portable", "avx2", "avx512bf16", "sm_90": what `nibble ops list` prints
#define NIBBLE_KERNEL(op, Args) Kernel<Args> op = nullptr;
  NIBBLE_OPS(NIBBLE_KERNEL)
#undef NIBBLE_KERNEL
  const ScratchSizes* scratch = nullptr;
};

// Calls f.template operator()<&KernelTable::x>("x") for each entry: what a device that wraps another, a check for
// completeness, or a listing needs.
template <class F>
constexpr void for_each_kernel(F&& f) {
#define NIBBLE_VISIT(op, Args) f.template operator()<&KernelTable::op>(#op);
  NIBBLE_OPS(NIBBLE_VISIT)
#undef NIBBLE_VISIT
}

}  // namespace ops
}  // namespace nibble
