// Kimi K3: its parts, with the checkpoint's names. What they do is in k3.cc; how they are filled, in k3_weights.cc.
//
// Shapes: T rows, D hidden, A heads, K key width, V value width, R kv latent, P shared key, E experts, L latent of the
// experts, F expert width, N vocabulary.
#pragma once

#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "base/device.h"
#include "checkpoint/checkpoint.h"
#include "model/residual.h"
#include "model/step.h"

namespace nibble::model {

struct Kda {
  Linear q_proj, k_proj, v_proj, g_proj;            // [A * K, D], [A * K, D], [A * V, D], [A * V, D]
  Linear f_a_proj, f_b_proj, b_proj, o_proj;        // [K, D], [A * K, K], [A, D], [D, A * V]
  View2<const float> q_conv1d, k_conv1d, v_conv1d;  // [channels, taps]
  Vector a_log, dt_bias, o_norm;                    // [A], [A * K], [V]
  int64_t index = 0;                                // among the KDA layers
  float gate_lower_bound = 0.0f, eps = 0.0f;

  Rows operator()(const Rows& n, Step& step) const;
};

struct Mla {
  Linear q_a_proj, q_b_proj, kv_a_proj_with_mqa, kv_b_proj, g_proj, o_proj;
  Vector q_a_layernorm, kv_a_layernorm;
  int64_t index = 0;  // among the MLA layers
  int64_t heads = 0, value_dim = 0;

  Rows operator()(const Rows& n, Step& step) const;
};

struct SituMlp {
  Linear gate_proj, up_proj, down_proj;
  float beta = 0.0f, linear_beta = 0.0f;

  Rows operator()(const Rows& n, Step& step) const;
};

struct LatentMoe {
  Linear gate;                     // [E, D], the router
  Vector e_score_correction_bias;  // [E]
  Linear routed_expert_down_proj, routed_expert_up_proj;
  Vector routed_expert_norm;   // [L]; empty where the config has no norm
  ops::ExpertBank w1, w3, w2;  // gate, up, down
  SituMlp shared_experts;
  int64_t index = 0;  // of the layer
  int64_t top_k = 0;
  float routed_scaling_factor = 1.0f, eps = 0.0f;

  Rows operator()(const Rows& n, Step& step) const;
};

struct Layer {
  int64_t index = 0;
  bool starts_block = false;
  AttentionResidual self_attention_res, mlp_res;
  Vector input_layernorm, post_attention_layernorm;
  std::variant<Kda, Mla> attention;
  std::variant<SituMlp, LatentMoe> mlp;
};

struct LoadOptions {
  // What the projections that are published in bf16 become; kBf16: they stay. Not the router, the small gates of KDA,
  // kv_b_proj, the embedding and the head, and not what the format cannot group.
  fp4::WeightFormat dense = fp4::WeightFormat::kBf16;
  std::function<void(int done, int total)> progress = {};  // layers
};

class K3 {
 public:
  // Binds the checkpoint's bytes to members, on `device`. The checkpoint must outlive the model: on a CPU its mapped
  // bytes are the weights.
  static K3 load(const checkpoint::Checkpoint& checkpoint, Device& device, const LoadOptions& options = {});

  // Enqueues the whole forward pass.
  void forward(Step& step) const;

  const checkpoint::Config& config() const { return config_; }
  cache::Shape cache_shape(DType dtype) const;

 private:
  friend class Binder;
  checkpoint::Config config_;
  std::vector<DeviceBuffer> owned_;  // vectors widened to fp32, tables of experts, rewritten projections

  Linear embed_tokens_, lm_head_;
  Vector norm_;
  AttentionResidual output_attn_res_;
  std::vector<Layer> layers_;
};

}  // namespace nibble::model
