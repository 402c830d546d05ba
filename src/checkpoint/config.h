// config.json of a Kimi K3 checkpoint, checked. Field names are the file's (docs/model.md 1).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::checkpoint {

struct Config {
  int64_t vocab_size = 0, hidden_size = 0, num_hidden_layers = 0;
  int64_t num_attention_heads = 0, q_lora_rank = 0, kv_lora_rank = 0;
  int64_t qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0;
  int64_t intermediate_size = 0, moe_intermediate_size = 0, routed_expert_hidden_size = 0;
  int64_t num_experts = 0, num_experts_per_token = 0, num_shared_experts = 0, first_k_dense_replace = 0;
  int64_t attn_res_block_size = 0, max_position_embeddings = 0;
  float routed_scaling_factor = 1.0f, rms_norm_eps = 1e-5f;
  float activation_situ_beta = 0.0f, activation_situ_linear_beta = 0.0f;
  bool latent_moe_use_norm = true;

  // linear_attn_config
  int64_t kda_num_heads = 0, kda_head_dim = 0, short_conv_kernel_size = 0;
  float gate_lower_bound = 0.0f;
  std::vector<bool> is_kda;  // [num_hidden_layers], zero-based, from the two one-based lists

  // top level; the stop ids of generation are these plus the tokenizer's [EOS]
  std::vector<int32_t> eos_token_id;

  // What quantization_config says of itself, for `inspect`; the tensors decide. "none" where nothing is declared.
  std::string declared_quantization = "none";

  bool is_moe(int64_t layer) const { return layer >= first_k_dense_replace; }
  int64_t kda_layers() const;  // how many
  int64_t mla_layers() const { return num_hidden_layers - kda_layers(); }
};

// Reads and checks `directory`/config.json. Throws Refusal naming the key, the value and what is supported.
Config load_config(const std::filesystem::path& directory);
// The same for text that is already in memory; `source` names it in refusals.
Config parse_config(std::string_view json, std::string_view source);

}  // namespace nibble::checkpoint
