#include "checkpoint/tensor_plan.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace nibble::checkpoint {
namespace {

using Size = int64_t (*)(const Config&);

enum class Where : uint8_t { kModel, kAny, kKda, kMla, kDense, kMoe };

// One row a tensor: the table that the loader, `inspect` and `synth` share.
struct Field {
  std::string_view stem;
  Where where;
  Storage storage;
  Size rows, cols;
  ModelPart part;
  bool bare = false;
};

constexpr Size kOne = [](const Config&) -> int64_t { return 1; };
constexpr Size kVocabulary = [](const Config& c) { return c.vocab_size; };
constexpr Size kHidden = [](const Config& c) { return c.hidden_size; };
constexpr Size kDenseWidth = [](const Config& c) { return c.intermediate_size; };
constexpr Size kKdaHeads = [](const Config& c) { return c.kda_num_heads; };
constexpr Size kKdaHeadDim = [](const Config& c) { return c.kda_head_dim; };
constexpr Size kKdaWidth = [](const Config& c) { return c.kda_num_heads * c.kda_head_dim; };
constexpr Size kTaps = [](const Config& c) { return c.short_conv_kernel_size; };
constexpr Size kQLora = [](const Config& c) { return c.q_lora_rank; };
constexpr Size kKvLora = [](const Config& c) { return c.kv_lora_rank; };
constexpr Size kKvA = [](const Config& c) { return c.kv_lora_rank + c.qk_rope_head_dim; };
constexpr Size kQWidth = [](const Config& c) {
  return c.num_attention_heads * (c.qk_nope_head_dim + c.qk_rope_head_dim);
};
constexpr Size kKvWidth = [](const Config& c) { return c.num_attention_heads * (c.qk_nope_head_dim + c.v_head_dim); };
constexpr Size kOWidth = [](const Config& c) { return c.num_attention_heads * c.v_head_dim; };
constexpr Size kExperts = [](const Config& c) { return c.num_experts; };
constexpr Size kLatentWidth = [](const Config& c) { return c.routed_expert_hidden_size; };
constexpr Size kExpertWidth = [](const Config& c) { return c.moe_intermediate_size; };
constexpr Size kSharedWidth = [](const Config& c) { return c.num_shared_experts * c.moe_intermediate_size; };

constexpr auto kAttnRes = ModelPart::kNormsAndResiduals;
constexpr std::array kModelFields = {
    Field{"embed_tokens", Where::kModel, Storage::kDense, kVocabulary, kHidden, ModelPart::kEmbedding},
    Field{"norm", Where::kModel, Storage::kNorm, kHidden, kOne, kAttnRes},
    Field{"output_attn_res_norm", Where::kModel, Storage::kNorm, kHidden, kOne, kAttnRes},
    Field{"output_attn_res_proj", Where::kModel, Storage::kNorm, kHidden, kOne, kAttnRes},
    Field{"lm_head", Where::kModel, Storage::kLinear, kVocabulary, kHidden, ModelPart::kHead},
};
constexpr std::array kLayerFields = {
    Field{"input_layernorm", Where::kAny, Storage::kNorm, kHidden, kOne, kAttnRes},
    Field{"post_attention_layernorm", Where::kAny, Storage::kNorm, kHidden, kOne, kAttnRes},
    Field{"self_attention_res_norm", Where::kAny, Storage::kNorm, kHidden, kOne, kAttnRes},
    Field{"self_attention_res_proj", Where::kAny, Storage::kNorm, kHidden, kOne, kAttnRes},
    Field{"mlp_res_norm", Where::kAny, Storage::kNorm, kHidden, kOne, kAttnRes},
    Field{"mlp_res_proj", Where::kAny, Storage::kNorm, kHidden, kOne, kAttnRes},

    Field{"self_attn.q_proj", Where::kKda, Storage::kLinear, kKdaWidth, kHidden, ModelPart::kKda},
    Field{"self_attn.k_proj", Where::kKda, Storage::kLinear, kKdaWidth, kHidden, ModelPart::kKda},
    Field{"self_attn.v_proj", Where::kKda, Storage::kLinear, kKdaWidth, kHidden, ModelPart::kKda},
    Field{"self_attn.g_proj", Where::kKda, Storage::kLinear, kKdaWidth, kHidden, ModelPart::kKda},
    Field{"self_attn.o_proj", Where::kKda, Storage::kLinear, kHidden, kKdaWidth, ModelPart::kKda},
    Field{"self_attn.f_a_proj", Where::kKda, Storage::kLinear, kKdaHeadDim, kHidden, ModelPart::kKda},
    Field{"self_attn.f_b_proj", Where::kKda, Storage::kLinear, kKdaWidth, kKdaHeadDim, ModelPart::kKda},
    Field{"self_attn.b_proj", Where::kKda, Storage::kLinear, kKdaHeads, kHidden, ModelPart::kKda},
    Field{"self_attn.q_conv1d", Where::kKda, Storage::kFp32, kKdaWidth, kTaps, ModelPart::kKda},
    Field{"self_attn.k_conv1d", Where::kKda, Storage::kFp32, kKdaWidth, kTaps, ModelPart::kKda},
    Field{"self_attn.v_conv1d", Where::kKda, Storage::kFp32, kKdaWidth, kTaps, ModelPart::kKda},
    Field{"self_attn.A_log", Where::kKda, Storage::kFp32Head, kKdaHeads, kOne, ModelPart::kKda, true},
    Field{"self_attn.dt_bias", Where::kKda, Storage::kFp32, kKdaWidth, kOne, ModelPart::kKda, true},
    Field{"self_attn.o_norm", Where::kKda, Storage::kNorm, kKdaHeadDim, kOne, ModelPart::kKda},

    Field{"self_attn.q_a_proj", Where::kMla, Storage::kLinear, kQLora, kHidden, ModelPart::kMla},
    Field{"self_attn.q_a_layernorm", Where::kMla, Storage::kNorm, kQLora, kOne, ModelPart::kMla},
    Field{"self_attn.q_b_proj", Where::kMla, Storage::kLinear, kQWidth, kQLora, ModelPart::kMla},
    Field{"self_attn.kv_a_proj_with_mqa", Where::kMla, Storage::kLinear, kKvA, kHidden, ModelPart::kMla},
    Field{"self_attn.kv_a_layernorm", Where::kMla, Storage::kNorm, kKvLora, kOne, ModelPart::kMla},
    Field{"self_attn.kv_b_proj", Where::kMla, Storage::kLinear, kKvWidth, kKvLora, ModelPart::kMla},
    Field{"self_attn.g_proj", Where::kMla, Storage::kLinear, kOWidth, kHidden, ModelPart::kMla},
    Field{"self_attn.o_proj", Where::kMla, Storage::kLinear, kHidden, kOWidth, ModelPart::kMla},

    Field{"mlp.gate_proj", Where::kDense, Storage::kLinear, kDenseWidth, kHidden, ModelPart::kDenseMlp},
    Field{"mlp.up_proj", Where::kDense, Storage::kLinear, kDenseWidth, kHidden, ModelPart::kDenseMlp},
    Field{"mlp.down_proj", Where::kDense, Storage::kLinear, kHidden, kDenseWidth, ModelPart::kDenseMlp},

    Field{"block_sparse_moe.gate", Where::kMoe, Storage::kDense, kExperts, kHidden, ModelPart::kRouter},
    Field{"block_sparse_moe.gate.e_score_correction_bias", Where::kMoe, Storage::kFp32, kExperts, kOne,
          ModelPart::kRouter, true},
    Field{"block_sparse_moe.routed_expert_down_proj", Where::kMoe, Storage::kLinear, kLatentWidth, kHidden,
          ModelPart::kLatent},
    Field{"block_sparse_moe.routed_expert_norm", Where::kMoe, Storage::kNorm, kLatentWidth, kOne, ModelPart::kLatent},
    Field{"block_sparse_moe.routed_expert_up_proj", Where::kMoe, Storage::kLinear, kHidden, kLatentWidth,
          ModelPart::kLatent},
    Field{"block_sparse_moe.shared_experts.gate_proj", Where::kMoe, Storage::kLinear, kSharedWidth, kHidden,
          ModelPart::kSharedExperts},
    Field{"block_sparse_moe.shared_experts.up_proj", Where::kMoe, Storage::kLinear, kSharedWidth, kHidden,
          ModelPart::kSharedExperts},
    Field{"block_sparse_moe.shared_experts.down_proj", Where::kMoe, Storage::kLinear, kHidden, kSharedWidth,
          ModelPart::kSharedExperts},
};
// w1 = gate, w2 = down, w3 = up.
constexpr std::array kExpertFields = {
    Field{"w1", Where::kMoe, Storage::kLinear, kExpertWidth, kLatentWidth, ModelPart::kRoutedExperts},
    Field{"w2", Where::kMoe, Storage::kLinear, kLatentWidth, kExpertWidth, ModelPart::kRoutedExperts},
    Field{"w3", Where::kMoe, Storage::kLinear, kExpertWidth, kLatentWidth, ModelPart::kRoutedExperts},
};
constexpr auto kModelCount = static_cast<int64_t>(kModelFields.size());
constexpr auto kLayerCount = static_cast<int64_t>(kLayerFields.size());
constexpr auto kExpertCount = static_cast<int64_t>(kExpertFields.size());
constexpr std::string_view kNormField = "block_sparse_moe.routed_expert_norm";
constexpr std::string_view kExpertsPrefix = "block_sparse_moe.experts.";

constexpr std::array<std::string_view, kParts> kPartNames = {
    "weight",         "weight_packed", "weight_scale",      "weight_global_scale",
    "weight_scale_2", "input_scale",   "input_global_scale"};
constexpr std::array<std::string_view, kModelParts> kModelPartNames = {
    "embedding",          "head", "KDA", "MLA", "dense MLP", "router", "shared experts", "latent", "routed experts",
    "norms and residuals"};

// Every prefix seen on the text model's tensors, longest first; the first is the published one.
constexpr std::array<std::string_view, 4> kPrefixes = {"language_model.model.", "model.language_model.",
                                                       "language_model.", "model."};

std::string_view without_prefix(std::string_view name) {
  for (const std::string_view prefix : kPrefixes) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Digits up to the next dot, as names are written: no sign, no leading zero. -1 if there are none.
int64_t take_number(std::string_view& text) {
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto digits = static_cast<size_t>(end - text.data());
  if (error != std::errc() || value < 0 || (digits > 1 && text.front() == '0')) return -1;
  text.remove_prefix(digits);
  return take_prefix(text, ".") ? value : -1;
}

template <class Fields, class Applies>
int64_t find_in(const Fields& fields, std::string_view stem, const Applies& applies) {
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].stem == stem && applies(fields[i])) return static_cast<int64_t>(i);
  }
  return -1;
}

bool applies(const Field& field, const Config& c, int64_t layer) {
  switch (field.where) {
    case Where::kModel:
    case Where::kAny: return true;
    case Where::kKda: return c.is_kda[static_cast<size_t>(layer)];
    case Where::kMla: return !c.is_kda[static_cast<size_t>(layer)];
    case Where::kDense: return !c.is_moe(layer);
    case Where::kMoe: return c.is_moe(layer) && (c.latent_moe_use_norm || field.stem != kNormField);
  }
  return false;
}

}  // namespace

bool stored_as_bf16(std::string_view stem, const Slot& slot) {
  return slot.storage == Storage::kNorm && !stem.ends_with("o_norm");
}

std::string_view name_of(Part part) { return kPartNames[static_cast<size_t>(part)]; }
std::string_view name_of(ModelPart part) { return kModelPartNames[static_cast<size_t>(part)]; }

TensorPlan::TensorPlan(const Config& config) : config_(config) {
  experts_base_ = kModelCount + config.num_hidden_layers * kLayerCount;
  const int64_t moe_layers = std::max<int64_t>(0, config.num_hidden_layers - config.first_k_dense_replace);
  if (__builtin_mul_overflow(moe_layers, config.num_experts * kExpertCount, &expert_slots_)) {
    throw Refusal({.what = "config.json: num_experts",
                   .seen = std::to_string(config.num_experts) + " in each of " + std::to_string(moe_layers) + " layers",
                   .rule = "the number of expert matrices fits 63 bits",
                   .fix = "take config.json from the published checkpoint"});
  }
}

namespace {

// A slot taken apart.
struct Address {
  const Field* field;
  int64_t layer = -1, expert = -1;
};

Address address_of(const Config& c, int64_t experts_base, int64_t slot) {
  if (slot < kModelCount) return {&kModelFields[static_cast<size_t>(slot)]};
  if (slot < experts_base) {
    const int64_t i = slot - kModelCount;
    return {&kLayerFields[static_cast<size_t>(i % kLayerCount)], i / kLayerCount};
  }
  const int64_t i = slot - experts_base, per_layer = c.num_experts * kExpertCount;
  return {&kExpertFields[static_cast<size_t>(i % kExpertCount)], c.first_k_dense_replace + i / per_layer,
          i % per_layer / kExpertCount};
}

}  // namespace

bool TensorPlan::exists(int64_t slot) const {
  const Address a = address_of(config_, experts_base_, slot);
  return applies(*a.field, config_, a.layer);
}

Slot TensorPlan::describe(int64_t slot) const {
  const Field& f = *address_of(config_, experts_base_, slot).field;
  return {.storage = f.storage, .rows = f.rows(config_), .cols = f.cols(config_), .bare = f.bare};
}

ModelPart TensorPlan::model_part(int64_t slot) const { return address_of(config_, experts_base_, slot).field->part; }

int64_t TensorPlan::layer(int64_t slot) const { return address_of(config_, experts_base_, slot).layer; }

std::string TensorPlan::stem(int64_t slot) const {
  const Address a = address_of(config_, experts_base_, slot);
  std::string out = a.field->stem == "lm_head" ? "" : "model.";
  if (a.layer >= 0) out += "layers." + std::to_string(a.layer) + ".";
  if (a.expert >= 0) out += std::string(kExpertsPrefix) + std::to_string(a.expert) + ".";
  return out.append(a.field->stem);
}

std::string TensorPlan::published_name(int64_t slot, Part part) const {
  const std::string name = "language_model." + stem(slot);
  return address_of(config_, experts_base_, slot).field->bare ? name : name + "." + std::string(name_of(part));
}

int64_t TensorPlan::find_expert(int64_t layer, std::string_view rest) const {
  const int64_t expert = take_number(rest);
  if (expert < 0 || expert >= config_.num_experts || !config_.is_moe(layer)) return -1;
  const int64_t field = find_in(kExpertFields, rest, [](const Field&) { return true; });
  if (field < 0) return -1;
  return experts_base_ + ((layer - config_.first_k_dense_replace) * config_.num_experts + expert) * kExpertCount +
         field;
}

int64_t TensorPlan::find_field(std::string_view stem) const {
  if (!take_prefix(stem, "layers.")) return find_in(kModelFields, stem, [](const Field&) { return true; });
  const int64_t layer = take_number(stem);
  if (layer < 0 || layer >= config_.num_hidden_layers) return -1;
  if (take_prefix(stem, kExpertsPrefix)) return find_expert(layer, stem);
  const int64_t field = find_in(kLayerFields, stem, [&](const Field& f) { return applies(f, config_, layer); });
  return field < 0 ? -1 : kModelCount + layer * kLayerCount + field;
}

int64_t TensorPlan::find_stem(std::string_view stem) const { return find_field(without_prefix(stem)); }

std::optional<TensorPlan::Place> TensorPlan::locate(std::string_view published) const {
  const std::string_view name = without_prefix(published);
  const size_t dot = name.rfind('.');
  const std::string_view last = name.substr(dot == std::string_view::npos ? 0 : dot + 1);
  const auto part = std::find(kPartNames.begin(), kPartNames.end(), last);
  const bool bare = part == kPartNames.end();
  if (!bare && dot == std::string_view::npos) return std::nullopt;
  const int64_t slot = find_field(bare ? name : name.substr(0, dot));
  if (slot < 0 || address_of(config_, experts_base_, slot).field->bare != bare) return std::nullopt;
  return Place{slot, bare ? Part::kWeight : static_cast<Part>(part - kPartNames.begin())};
}

bool TensorPlan::is_vision(std::string_view published) {
  const std::string_view name = without_prefix(published);
  return name.starts_with("vision_tower.") || name.starts_with("mm_projector.");
}

}  // namespace nibble::checkpoint
