// The one list of kernels a backend may offer. A null entry means "this backend has none".
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace nibble {
class Device;
namespace ops {

struct Add;
struct AttnResMix;
struct CausalConvSilu;
struct Embedding;
struct GatedRmsNorm;
struct KdaGate;
struct KdaRows;
struct Linear;
struct MlaAppend;
struct MlaAttention;
struct MoeExperts;
struct MoeRoute;
struct RmsNorm;
struct Sample;
struct SelectRows;
struct SigmoidMul;
struct Situ;

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
  Kernel<Add> add = nullptr;
  Kernel<AttnResMix> attn_res_mix = nullptr;
  Kernel<CausalConvSilu> causal_conv_silu = nullptr;
  Kernel<Embedding> embedding = nullptr;
  Kernel<GatedRmsNorm> gated_rms_norm = nullptr;
  Kernel<KdaGate> kda_gate = nullptr;
  Kernel<KdaRows> kda_rows = nullptr;
  Kernel<Linear> linear = nullptr;
  Kernel<MlaAppend> mla_append = nullptr;
  Kernel<MlaAttention> mla_attention = nullptr;
  Kernel<MoeExperts> moe_experts = nullptr;
  Kernel<MoeRoute> moe_route = nullptr;
  Kernel<RmsNorm> rms_norm = nullptr;
  Kernel<Sample> sample = nullptr;
  Kernel<SelectRows> select_rows = nullptr;
  Kernel<SigmoidMul> sigmoid_mul = nullptr;
  Kernel<Situ> situ = nullptr;
  const ScratchSizes* scratch = nullptr;
};

// Calls f.template operator()<&KernelTable::x>("x") for each entry: what a device that wraps another, a check for
// completeness, or a listing needs.
template <class F>
constexpr void for_each_kernel(F&& f) {
  f.template operator()<&KernelTable::add>("add");
  f.template operator()<&KernelTable::attn_res_mix>("attn_res_mix");
  f.template operator()<&KernelTable::causal_conv_silu>("causal_conv_silu");
  f.template operator()<&KernelTable::embedding>("embedding");
  f.template operator()<&KernelTable::gated_rms_norm>("gated_rms_norm");
  f.template operator()<&KernelTable::kda_gate>("kda_gate");
  f.template operator()<&KernelTable::kda_rows>("kda_rows");
  f.template operator()<&KernelTable::linear>("linear");
  f.template operator()<&KernelTable::mla_append>("mla_append");
  f.template operator()<&KernelTable::mla_attention>("mla_attention");
  f.template operator()<&KernelTable::moe_experts>("moe_experts");
  f.template operator()<&KernelTable::moe_route>("moe_route");
  f.template operator()<&KernelTable::rms_norm>("rms_norm");
  f.template operator()<&KernelTable::sample>("sample");
  f.template operator()<&KernelTable::select_rows>("select_rows");
  f.template operator()<&KernelTable::sigmoid_mul>("sigmoid_mul");
  f.template operator()<&KernelTable::situ>("situ");
}

}  // namespace ops
}  // namespace nibble
