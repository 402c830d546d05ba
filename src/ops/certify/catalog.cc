#include "ops/certify/entries.h"

namespace nibble::ops::certify {

std::span<const Entry> catalog() {
  static constexpr Entry kEntries[] = {
      {"causal_conv_silu", "causal depthwise convolution with SiLU", causal_conv_silu},
      {"embedding", "token ids to rows of the embedding table", embedding},
      {"gated_rms_norm", "per-head RMS normalisation with a sigmoid gate", gated_rms_norm},
      {"kda_gate", "forget gate and write strength of KDA", kda_gate},
      {"kda_rows", "Kimi Delta Attention, segment-canonical", kda_rows},
      {"linear", "one activation times up to eight weight matrices", linear},
      {"moe_experts", "rows through their routed experts, summed", moe_experts},
      {"moe_route", "which experts a row goes to, and with what weight", moe_route},
      {"rms_norm", "root-mean-square normalisation", rms_norm},
      {"situ", "the SiTU activation", situ},
  };
  return kEntries;
}

}  // namespace nibble::ops::certify
