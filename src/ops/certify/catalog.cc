#include "ops/certify/entries.h"

namespace nibble::ops::certify {

std::span<const Entry> catalog() {
  static constexpr Entry kEntries[] = {
      {"add", "sum of two activations", add},
      {"attn_res_mix", "attention residual: a softmax over depth", attn_res_mix},
      {"causal_conv_silu", "causal depthwise convolution with SiLU", causal_conv_silu},
      {"embedding", "token ids to rows of the embedding table", embedding},
      {"gated_rms_norm", "per-head RMS normalisation with a sigmoid gate", gated_rms_norm},
      {"kda_gate", "forget gate and write strength of KDA", kda_gate},
      {"kda_rows", "Kimi Delta Attention, segment-canonical", kda_rows},
      {"linear", "one activation times up to eight weight matrices", linear},
      {"mla_append", "stores latents in their pages", mla_append},
      {"mla_attention", "multi-head latent attention over pages", mla_attention},
      {"moe_experts", "rows through their routed experts, summed", moe_experts},
      {"moe_route", "which experts a row goes to, and with what weight", moe_route},
      {"rms_norm", "root-mean-square normalisation", rms_norm},
      {"sample", "one token per row of logits", sample},
      {"select_rows", "picks rows of an activation", select_rows},
      {"sigmoid_mul", "output gate of MLA", sigmoid_mul},
      {"situ", "the SiTU activation", situ},
  };
  return kEntries;
}

}  // namespace nibble::ops::certify
