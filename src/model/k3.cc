// Kimi K3, whole. Numbers in [] are sections of docs/model.md.
//
// This file does not know number formats (a weight knows its own), devices (a step enqueues on its own), or kinds of
// step (prompt chunk, single token, draft: all are rows).
#include "model/k3.h"

namespace nibble::model {
namespace {

constexpr float kLatentEps = 1e-6f;  // [6.2] the published code builds these two norms with its default

// Whichever kind the layer has.
template <class Kinds>
Rows run(const Kinds& kinds, const Rows& n, Step& step) {
  return std::visit([&](const auto& kind) { return kind(n, step); }, kinds);
}

}  // namespace

void K3::forward(Step& step) const {  // [4]
  const float eps = config_.rms_norm_eps;
  const int64_t block = config_.attn_res_block_size, blocks = (config_.num_hidden_layers + block - 1) / block;
  Residual s(step, embed_tokens_, blocks, eps);  // [7] the running sum and its snapshots; there is no other residual
  for (const Layer& layer : layers_) {
    const Rows u = s.mix(layer.self_attention_res);
    if (layer.starts_block) s.snapshot();  // after the mix: keep S, start a new sum
    const Rows n = step.rms_norm(u, layer.input_layernorm, eps);
    s += step.tapped("attn", layer.index, run(layer.attention, n, step));
    const Rows m = step.rms_norm(s.mix(layer.mlp_res), layer.post_attention_layernorm, eps);
    s += step.tapped("mlp", layer.index, run(layer.mlp, m, step));
  }
  const Rows mixed = step.tapped("final", 0, s.mix(output_attn_res_));
  step.logits = step.linear_f32(step.rms_norm(step.select(mixed, step.sampled), norm_, eps), lm_head_);  // [9]
}

Rows Kda::operator()(const Rows& n, Step& step) const {  // [5]
  const auto [xq, xk, xv, gate, f, b] = step.linear(n, q_proj, k_proj, v_proj, g_proj, f_a_proj, b_proj);
  const auto state = step.cache.kda(index);                            // windows, S0, records of the open segment
  const Rows q = step.causal_conv_silu(xq, q_conv1d, state.q_window);  // [5.2]
  const Rows k = step.causal_conv_silu(xk, k_conv1d, state.k_window);
  const Rows v = step.causal_conv_silu(xv, v_conv1d, state.v_window);
  const auto forget = step.kda_gate(step.linear(f, f_b_proj), b, a_log, dt_bias, gate_lower_bound);  // [5.4, 5.5]
  const Rows o = step.kda_rows(q, k, v, forget, state);                   // [5.3, 5.6] segment-canonical
  return step.linear(step.gated_rms_norm(o, gate, o_norm, eps), o_proj);  // [5.8]
}

Rows Mla::operator()(const Rows& n, Step& step) const {  // [6] positions enter nowhere: no rotation
  const auto [cq, kv, gate] = step.linear(n, q_a_proj, kv_a_proj_with_mqa, g_proj);
  const Rows q = step.linear(step.rms_norm(cq, q_a_layernorm, kLatentEps), q_b_proj);
  const int64_t latent = kv_a_layernorm.size;
  step.mla_append(step.rms_norm(kv.columns(0, latent), kv_a_layernorm, kLatentEps),  // [6.3]
                  kv.columns(latent, kv.cols - latent), index);
  const Rows o = step.mla_attention(q, kv_b_proj, index, heads, value_dim);  // [6.1, 6.4]
  return step.linear(step.sigmoid_mul(o, gate), o_proj);
}

Rows SituMlp::operator()(const Rows& n, Step& step) const {  // [8.1]
  const auto [gate, up] = step.linear(n, gate_proj, up_proj);
  return step.linear(step.situ(gate, up, beta, linear_beta), down_proj);
}

Rows LatentMoe::operator()(const Rows& n, Step& step) const {  // [8.2]
  const Routes routes = step.moe_route(step.linear_f32(n, gate), e_score_correction_bias, top_k, routed_scaling_factor);
  step.tapped(index, routes);
  const Rows latent = step.linear(n, routed_expert_down_proj);
  Rows y = step.moe_experts(latent, routes, w1, w3, w2, shared_experts.beta, shared_experts.linear_beta);
  if (routed_expert_norm.size != 0) y = step.rms_norm(y, routed_expert_norm, eps);  // after the whole sum: not linear
  const Rows routed = step.linear(y, routed_expert_up_proj);
  step.add(routed, shared_experts(n, step), routed);
  return routed;
}

}  // namespace nibble::model
