// Names to members: where each tensor of the checkpoint goes. The checkpoint has already checked that all of them are
// there, with the shapes the config asks for.
#include <cstring>
#include <string>

#include "checkpoint/requantize.h"
#include "model/k3.h"
#include "plan/footprint.h"

namespace nibble::model {

// Turns checkpoint sources into device memory. Matrices stay the file's bytes; vectors are small and widened to fp32.
class Binder {
 public:
  Binder(const checkpoint::Checkpoint& checkpoint, Device& device, fp4::WeightFormat dense,
         std::vector<DeviceBuffer>& owned)
      : checkpoint_(checkpoint), device_(device), dense_(dense), owned_(owned) {}

  Linear linear(const std::string& stem) const { return {matrix(stem)}; }

  // The same, rewritten where the options ask for it.
  Linear projection(const std::string& stem) {
    const checkpoint::MatrixSource source = checkpoint_.matrix(stem);
    if (dense_ == fp4::WeightFormat::kBf16 || !checkpoint::can_requantize(source, dense_)) return linear(stem);
    const checkpoint::HostMatrix made = checkpoint::requantize(source, dense_);
    return {{.format = made.format,
             .rows = source.rows,
             .cols = source.cols,
             .codes = upload<std::byte>(made.codes),
             .scales = upload<std::byte>(made.scales)}};
  }

  Vector vector(const std::string& name) {
    const checkpoint::VectorSource source = checkpoint_.vector(name);
    std::vector<float> wide(static_cast<size_t>(source.size));
    if (source.is_bf16) {
      for (size_t i = 0; i < wide.size(); ++i) {
        Bf16 x;
        std::memcpy(&x, source.bytes.data() + i * sizeof x, sizeof x);
        wide[i] = to_float(x);
      }
    } else {
      std::memcpy(wide.data(), source.bytes.data(), wide.size() * sizeof(float));
    }
    return {upload<float>(wide), source.size};
  }

  View2<const float> taps(const std::string& name, int64_t taps) {  // [channels, 1, taps]
    const Vector flat = vector(name);
    return {flat.data, flat.size / taps, taps, taps};
  }

  ops::ExpertBank experts(const std::string& prefix, int64_t count, const char* which) {
    std::vector<ops::WeightMatrix> table;
    table.reserve(static_cast<size_t>(count));
    for (int64_t e = 0; e < count; ++e) table.push_back(matrix(prefix + std::to_string(e) + which));
    const ops::WeightMatrix& first = table.front();
    return {{upload<ops::WeightMatrix>(table), count}, first.format, first.rows, first.cols};
  }

 private:
  ops::WeightMatrix matrix(const std::string& stem) const {
    const checkpoint::MatrixSource source = checkpoint_.matrix(stem);
    return {.format = source.format,
            .rows = source.rows,
            .cols = source.cols,
            .codes = device_.adopt(source.codes),
            .scales = source.scales.empty() ? nullptr : device_.adopt(source.scales),
            .tensor_scale = source.tensor_scale};
  }

  template <class T>
  const T* upload(const std::vector<T>& host) {
    owned_.emplace_back(device_, host.size() * sizeof(T));
    device_.copy_in(owned_.back().data(), std::as_bytes(std::span(host)));
    device_.synchronize();  // `host` dies with the caller
    return owned_.back().as<const T>();
  }

  const checkpoint::Checkpoint& checkpoint_;
  Device& device_;
  fp4::WeightFormat dense_;
  std::vector<DeviceBuffer>& owned_;
};

namespace {

Kda bind_kda(Binder& bind, const checkpoint::Config& c, const std::string& at, int64_t index) {
  return {.q_proj = bind.projection(at + "q_proj"),
          .k_proj = bind.projection(at + "k_proj"),
          .v_proj = bind.projection(at + "v_proj"),
          .g_proj = bind.projection(at + "g_proj"),
          .f_a_proj = bind.linear(at + "f_a_proj"),
          .f_b_proj = bind.linear(at + "f_b_proj"),
          .b_proj = bind.linear(at + "b_proj"),
          .o_proj = bind.projection(at + "o_proj"),
          .q_conv1d = bind.taps(at + "q_conv1d.weight", c.short_conv_kernel_size),
          .k_conv1d = bind.taps(at + "k_conv1d.weight", c.short_conv_kernel_size),
          .v_conv1d = bind.taps(at + "v_conv1d.weight", c.short_conv_kernel_size),
          .a_log = bind.vector(at + "A_log"),  // narrowed to the heads: the file pads it
          .dt_bias = bind.vector(at + "dt_bias"),
          .o_norm = bind.vector(at + "o_norm.weight"),
          .index = index,
          .gate_lower_bound = c.gate_lower_bound,
          .eps = c.rms_norm_eps};
}

Mla bind_mla(Binder& bind, const checkpoint::Config& c, const std::string& at, int64_t index) {
  return {.q_a_proj = bind.projection(at + "q_a_proj"),
          .q_b_proj = bind.projection(at + "q_b_proj"),
          .kv_a_proj_with_mqa = bind.projection(at + "kv_a_proj_with_mqa"),
          .kv_b_proj = bind.linear(at + "kv_b_proj"),
          .g_proj = bind.projection(at + "g_proj"),
          .o_proj = bind.projection(at + "o_proj"),
          .q_a_layernorm = bind.vector(at + "q_a_layernorm.weight"),
          .kv_a_layernorm = bind.vector(at + "kv_a_layernorm.weight"),
          .index = index,
          .heads = c.num_attention_heads,
          .value_dim = c.v_head_dim};
}

SituMlp bind_mlp(Binder& bind, const checkpoint::Config& c, const std::string& at) {
  return {.gate_proj = bind.projection(at + "gate_proj"),
          .up_proj = bind.projection(at + "up_proj"),
          .down_proj = bind.projection(at + "down_proj"),
          .beta = c.activation_situ_beta,
          .linear_beta = c.activation_situ_linear_beta};
}

LatentMoe bind_moe(Binder& bind, const checkpoint::Config& c, const std::string& at, int64_t layer) {
  return {.gate = bind.linear(at + "gate"),
          .e_score_correction_bias = bind.vector(at + "gate.e_score_correction_bias"),
          .routed_expert_down_proj = bind.projection(at + "routed_expert_down_proj"),
          .routed_expert_up_proj = bind.projection(at + "routed_expert_up_proj"),
          .routed_expert_norm = c.latent_moe_use_norm ? bind.vector(at + "routed_expert_norm.weight") : Vector{},
          .w1 = bind.experts(at + "experts.", c.num_experts, ".w1"),
          .w3 = bind.experts(at + "experts.", c.num_experts, ".w3"),
          .w2 = bind.experts(at + "experts.", c.num_experts, ".w2"),
          .shared_experts = bind_mlp(bind, c, at + "shared_experts."),
          .index = layer,
          .top_k = c.num_experts_per_token,
          .routed_scaling_factor = c.routed_scaling_factor,
          .eps = c.rms_norm_eps};
}

}  // namespace

K3 K3::load(const checkpoint::Checkpoint& checkpoint, Device& device, const LoadOptions& options) {
  K3 model;
  model.config_ = checkpoint.config();
  const checkpoint::Config& c = model.config_;
  Binder bind(checkpoint, device, options.dense, model.owned_);
  // Where weights are copied, those of a layer leave host memory before the next come: none is there twice.
  const bool copies = !device.shares_host_memory() || options.dense != fp4::WeightFormat::kBf16;
  const auto copied = [&] {
    if (!copies) return;
    device.synchronize();
    checkpoint.release();
  };
  const auto residual = [&](const std::string& at) {
    return AttentionResidual{bind.vector(at + "_norm.weight"), bind.vector(at + "_proj.weight")};
  };

  model.embed_tokens_ = bind.linear("model.embed_tokens");
  int64_t kda_index = 0, mla_index = 0;
  for (int64_t l = 0; l < c.num_hidden_layers; ++l) {
    const std::string at = "model.layers." + std::to_string(l) + ".";
    Layer layer;
    layer.index = l;
    layer.starts_block = l % c.attn_res_block_size == 0;
    layer.self_attention_res = residual(at + "self_attention_res");
    layer.mlp_res = residual(at + "mlp_res");
    layer.input_layernorm = bind.vector(at + "input_layernorm.weight");
    layer.post_attention_layernorm = bind.vector(at + "post_attention_layernorm.weight");
    if (c.is_kda[static_cast<size_t>(l)]) {
      layer.attention = bind_kda(bind, c, at + "self_attn.", kda_index++);
    } else {
      layer.attention = bind_mla(bind, c, at + "self_attn.", mla_index++);
    }
    if (c.is_moe(l)) {
      layer.mlp = bind_moe(bind, c, at + "block_sparse_moe.", l);
    } else {
      layer.mlp = bind_mlp(bind, c, at + "mlp.");
    }
    model.layers_.push_back(layer);
    copied();
    if (options.progress) options.progress(static_cast<int>(l + 1), static_cast<int>(c.num_hidden_layers));
  }
  model.output_attn_res_ = residual("model.output_attn_res");
  model.norm_ = bind.vector("model.norm.weight");
  model.lm_head_ = bind.linear("lm_head");
  copied();
  return model;
}

cache::Shape K3::cache_shape(DType dtype) const { return plan::cache_shape(config_, /*ranks=*/1, dtype); }

}  // namespace nibble::model
