#include "model/step.h"

#include <cmath>

#include "ops/ops.h"

namespace nibble::model {

Rows Step::new_rows(int64_t count, int64_t width, DType type) {
  return {arena.take(static_cast<size_t>(count * width * bytes_of(type))), type, count, width, width};
}

View2<float> Step::new_floats(int64_t count, int64_t width) {
  return {arena.take_array<float>(count * width), count, width, width};
}

View1<std::byte> Step::scratch(size_t bytes) { return {arena.take(bytes), static_cast<int64_t>(bytes)}; }

void Step::embedding(const Linear& table, const Rows& out) {
  ops::embedding(device, {.tokens = tokens, .table = table.weight, .out = out});
}

Rows Step::rms_norm(const ConstRows& x, Vector weight, float eps) {
  const Rows out = rows(x.rows, x.cols);
  ops::rms_norm(device, {.x = x, .weight = weight, .eps = eps, .out = out});
  return out;
}

Rows Step::attn_res_mix(const ConstRows& sources, Vector norm, Vector proj, float eps) {
  const Rows out = rows(row_count(), sources.cols);
  ops::attn_res_mix(device, {.sources = sources, .norm = norm, .proj = proj, .eps = eps, .out = out});
  return out;
}

void Step::add(const ConstRows& a, const ConstRows& b, const Rows& out) {
  ops::add(device, {.a = a, .b = b, .out = out});
}

Rows Step::select(const ConstRows& x, View1<const int32_t> chosen) {
  const Rows out = rows(chosen.size, x.cols);
  ops::select_rows(device, {.x = x, .rows = chosen, .out = out});
  return out;
}

void Step::enqueue_linear(const ConstRows& x, std::initializer_list<const Linear*> layers, Rows* out) {
  ops::Linear args;
  args.x = x;
  for (const Linear* layer : layers) {
    *out = rows(x.rows, layer->weight.rows);
    args.parts[args.part_count++] = {.weight = layer->weight, .out = *out++};
  }
  ops::linear(device, args);
}

View2<float> Step::linear_f32(const ConstRows& x, const Linear& layer) {
  const View2<float> out = new_floats(x.rows, layer.weight.rows);
  ops::Linear args;
  args.x = x;
  args.parts[args.part_count++] = {.weight = layer.weight,
                                   .out = {out.data, DType::kF32, out.rows, out.cols, out.stride}};
  ops::linear(device, args);
  return out;
}

Rows Step::causal_conv_silu(const ConstRows& x, const View2<const float>& weight, const Rows& window) {
  const Rows out = rows(x.rows, x.cols);
  ops::causal_conv_silu(device, {.x = x, .weight = weight, .window = window, .sequences = sequences, .out = out});
  return out;
}

Step::Gate Step::kda_gate(const ConstRows& gate, const ConstRows& beta, Vector a_log, Vector dt_bias,
                          float lower_bound) {
  const Gate out = {new_floats(gate.rows, gate.cols), new_floats(beta.rows, beta.cols)};
  ops::kda_gate(device, {.gate = gate,
                         .beta = beta,
                         .a_log = a_log,
                         .dt_bias = dt_bias,
                         .lower_bound = lower_bound,
                         .decay = out.decay,
                         .beta_out = out.beta});
  return out;
}

Rows Step::kda_rows(const ConstRows& q, const ConstRows& k, const ConstRows& v, const Gate& gate,
                    const cache::Cache::KdaLayer& state) {
  const cache::Shape& shape = cache.shape();
  const Rows out = rows(v.rows, v.cols);
  ops::kda_rows(device, {.q = q,
                         .k = k,
                         .v = v,
                         .decay = gate.decay,
                         .beta = gate.beta,
                         .state = state.state,
                         .records = state.records,
                         .heads = shape.heads,
                         .key_dim = shape.key_dim,
                         .value_dim = shape.value_dim,
                         .sequences = sequences,
                         .out = out,
                         .scratch = scratch(ops::kda_rows_scratch_bytes(device, shape.key_dim, shape.value_dim))});
  return out;
}

Rows Step::gated_rms_norm(const ConstRows& x, const ConstRows& gate, Vector weight, float eps) {
  const Rows out = rows(x.rows, x.cols);
  ops::gated_rms_norm(device, {.x = x, .gate = gate, .weight = weight, .eps = eps, .out = out});
  return out;
}

void Step::mla_append(const ConstRows& latent, const ConstRows& shared_key, int64_t mla_index) {
  ops::mla_append(device,
                  {.latent = latent, .shared_key = shared_key, .sequences = sequences, .pool = cache.mla(mla_index)});
}

Rows Step::mla_attention(const ConstRows& q, const Linear& kv_b, int64_t mla_index, int64_t heads, int64_t value_dim) {
  const cache::Shape& shape = cache.shape();
  const int64_t nope_dim = kv_b.weight.rows / heads - value_dim;
  const Rows out = rows(q.rows, heads * value_dim);
  const size_t bytes =
      ops::mla_attention_scratch_bytes(device, shape.latent_dim, nope_dim, shape.shared_dim, value_dim, max_positions);
  ops::mla_attention(device, {.q = q,
                              .kv_b = kv_b.weight,
                              .pool = cache.mla(mla_index),
                              .sequences = sequences,
                              .heads = heads,
                              .nope_dim = nope_dim,
                              .shared_dim = shape.shared_dim,
                              .value_dim = value_dim,
                              .scale = 1.0f / std::sqrt(static_cast<float>(nope_dim + shape.shared_dim)),
                              .form = mla_form,
                              .scratch = scratch(bytes),
                              .out = out});
  return out;
}

Rows Step::sigmoid_mul(const ConstRows& x, const ConstRows& gate) {
  const Rows out = rows(x.rows, x.cols);
  ops::sigmoid_mul(device, {.x = x, .gate = gate, .out = out});
  return out;
}

Rows Step::situ(const ConstRows& gate, const ConstRows& up, float beta, float linear_beta) {
  const Rows out = rows(gate.rows, gate.cols);
  ops::situ(device, {.gate = gate, .up = up, .beta = beta, .linear_beta = linear_beta, .out = out});
  return out;
}

Routes Step::moe_route(const View2<const float>& logits_in, Vector bias, int64_t top_k, float scale) {
  const int64_t count = logits_in.rows;
  const Routes out = {{arena.take_array<int32_t>(count * top_k), count, top_k, top_k}, new_floats(count, top_k)};
  ops::moe_route(device, {.logits = logits_in, .bias = bias, .ids = out.ids, .weights = out.weights, .scale = scale});
  return out;
}

Rows Step::moe_experts(const ConstRows& x, const Routes& routes, const ops::ExpertBank& w1, const ops::ExpertBank& w3,
                       const ops::ExpertBank& w2, float beta, float linear_beta) {
  const Rows out = rows(x.rows, x.cols);
  const size_t bytes =
      ops::moe_experts_scratch_bytes(device, x.rows, routes.ids.cols, w1.experts.size, w1.cols, w1.rows);
  ops::moe_experts(device, {.x = x,
                            .ids = routes.ids,
                            .weights = routes.weights,
                            .w1 = w1,
                            .w3 = w3,
                            .w2 = w2,
                            .beta = beta,
                            .linear_beta = linear_beta,
                            .scratch = scratch(bytes),
                            .out = out});
  return out;
}

}  // namespace nibble::model
