#include "ops/certify/entries.h"

namespace nibble::ops::certify {

std::span<const Entry> catalog() {
  static constexpr Entry kEntries[] = {
      {"causal_conv_silu", "causal depthwise convolution with SiLU", causal_conv_silu},
      {"gated_rms_norm", "per-head RMS normalisation with a sigmoid gate", gated_rms_norm},
      {"kda_gate", "forget gate and write strength of KDA", kda_gate},
      {"kda_rows", "Kimi Delta Attention, segment-canonical", kda_rows},
      {"rms_norm", "root-mean-square normalisation", rms_norm},
  };
  return kEntries;
}

}  // namespace nibble::ops::certify
