#include "ops/certify/entries.h"

namespace nibble::ops::certify {

std::span<const Entry> catalog() {
  static constexpr Entry kEntries[] = {
      {"add", "sum of two activations", add},
      {"attn_res_mix", "attention residual: a softmax over depth", attn_res_mix},
      {"mla_append", "stores latents in their pages", mla_append},
      {"mla_attention", "multi-head latent attention over pages", mla_attention},
      {"rms_norm", "root-mean-square normalisation", rms_norm},
      {"sample", "one token per row of logits", sample},
      {"select_rows", "picks rows of an activation", select_rows},
      {"sigmoid_mul", "output gate of MLA", sigmoid_mul},
  };
  return kEntries;
}

}  // namespace nibble::ops::certify
