// One step: a ragged batch of rows on its way through the model.
//
// Comes in: tokens and, for each row, whose it is and at which position (all in device memory); the cache that holds
// the sequences' state; an arena for what lives no longer than the step. Goes out: logits of the sampled rows, and the
// sequences' state advanced. In between everything is enqueued on the device's stream and nothing else happens: no
// allocation, no read-back, no decision that depends on what else is in the batch.
//
// The methods are the ops of the catalog, each writing into fresh rows of the arena.
#pragma once

#include <array>
#include <initializer_list>

#include "base/arena.h"
#include "base/device.h"
#include "base/view.h"
#include "cache/cache.h"
#include "ops/mla_attention.h"
#include "ops/sequences.h"
#include "ops/weight.h"

namespace nibble::model {

using Vector = View1<const float>;

struct Linear {
  ops::WeightMatrix weight;  // [out, in]
};

struct Routes {
  View2<int32_t> ids;    // [T, k], ascending in a row
  View2<float> weights;  // [T, k]
};

// Sees intermediate results: tests and drafters. Called while the step is enqueued: a listener may enqueue copies.
class Tap {
 public:
  virtual ~Tap() = default;
  virtual void rows(const char* what, int64_t layer, const ConstRows& rows) = 0;  // "embedding", "attn", "mlp", "final"
  virtual void routes(int64_t layer, const Routes& routes) = 0;
};

class Step {
 public:
  // What the engine fills in.
  Device& device;
  Arena& arena;
  cache::Cache& cache;
  ops::Sequences sequences;
  View1<const int32_t> tokens;   // [T]
  View1<const int32_t> sampled;  // [R] rows whose logits are wanted
  int64_t max_positions = 0;     // no sequence is longer
  ops::MlaForm mla_form = ops::MlaForm::kAbsorbed;
  Tap* tap = nullptr;
  View2<float> logits;  // [R, N] out, in the arena

  int64_t row_count() const { return tokens.size; }
  DType dtype() const { return cache.shape().dtype; }

  Rows rows(int64_t count, int64_t width) { return new_rows(count, width, dtype()); }
  // Shows `x` to the listener, if there is one.
  Rows tapped(const char* what, int64_t layer, const Rows& x) const {
    if (tap != nullptr) tap->rows(what, layer, x);
    return x;
  }
  void tapped(int64_t layer, const Routes& routes) const {
    if (tap != nullptr) tap->routes(layer, routes);
  }

  void embedding(const Linear& table, const Rows& out);
  Rows rms_norm(const ConstRows& x, Vector weight, float eps);
  Rows attn_res_mix(const ConstRows& sources, Vector norm, Vector proj, float eps);
  void add(const ConstRows& a, const ConstRows& b, const Rows& out);
  Rows select(const ConstRows& x, View1<const int32_t> chosen);

  template <class... L>
  std::array<Rows, sizeof...(L)> linear(const ConstRows& x, const L&... layers) {
    std::array<Rows, sizeof...(L)> out;
    enqueue_linear(x, {&layers...}, out.data());
    return out;
  }
  Rows linear(const ConstRows& x, const Linear& layer) { return linear<Linear>(x, layer)[0]; }
  View2<float> linear_f32(const ConstRows& x, const Linear& layer);  // never landed: router, head

  Rows causal_conv_silu(const ConstRows& x, const View2<const float>& weight, const Rows& window);
  struct Gate {
    View2<float> decay, beta;  // [T, A * K], [T, A]
  };
  Gate kda_gate(const ConstRows& gate, const ConstRows& beta, Vector a_log, Vector dt_bias, float lower_bound);
  Rows kda_rows(const ConstRows& q, const ConstRows& k, const ConstRows& v, const Gate& gate,
                const cache::Cache::KdaLayer& state);
  Rows gated_rms_norm(const ConstRows& x, const ConstRows& gate, Vector weight, float eps);

  void mla_append(const ConstRows& latent, const ConstRows& shared_key, int64_t mla_index);
  Rows mla_attention(const ConstRows& q, const Linear& kv_b, int64_t mla_index, int64_t heads, int64_t value_dim);
  Rows sigmoid_mul(const ConstRows& x, const ConstRows& gate);

  Rows situ(const ConstRows& gate, const ConstRows& up, float beta, float linear_beta);
  Routes moe_route(const View2<const float>& logits, Vector bias, int64_t top_k, float scale);
  Rows moe_experts(const ConstRows& x, const Routes& routes, const ops::ExpertBank& w1, const ops::ExpertBank& w3,
                   const ops::ExpertBank& w2, float beta, float linear_beta);

 private:
  Rows new_rows(int64_t count, int64_t width, DType type);
  View2<float> new_floats(int64_t count, int64_t width);
  View1<std::byte> scratch(size_t bytes);
  void enqueue_linear(const ConstRows& x, std::initializer_list<const Linear*> layers, Rows* out);
};

}  // namespace nibble::model
