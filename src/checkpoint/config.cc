#include "checkpoint/config.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "checkpoint/config_json.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/quant_config.h"

namespace nibble::checkpoint {
namespace {

using nlohmann::json;

constexpr int64_t kMaxSize = int64_t{1} << 31;          // any one dimension; products of two then fit an int64_t
constexpr int64_t kMaxConfigBytes = int64_t{16} << 20;  // the published one has 7 KB
const char* const kTakePublished = "take config.json from the published checkpoint";

[[noreturn]] void refuse_kimi_linear(std::string_view source, const std::string& seen) {
  throw Refusal({.what = std::string(source) + ": a Kimi-Linear checkpoint",
                 .seen = seen,
                 .rule = "nibble runs Kimi K3 only: Kimi-Linear has other gates (softplus decay, no lower bound) and "
                         "other MLPs (SwiGLU, no latent), so it would load and answer wrongly",
                 .fix = "use a checkpoint whose config.json says model_type kimi_k3"});
}

// The object with the text model's keys: nested in text_config as published, or the whole file.
ConfigObject find_text_config(const ConfigObject& top, std::string_view source) {
  const std::string type = top.has("model_type") ? top.text("model_type") : "";
  if (top.has("text_config")) {
    if (!type.empty() && type != "kimi_k3") {
      top.refuse("model_type", '"' + type + '"', "known here: kimi_k3", "use a Kimi K3 checkpoint");
    }
    return top.child("text_config");
  }
  if (type != "kimi_linear" && type != "kimi_k3") {
    top.refuse("model_type", type.empty() ? "missing, and there is no text_config" : '"' + type + '"',
               "known here: kimi_k3", "use a Kimi K3 checkpoint");
  }
  const bool has_bound = top.has("linear_attn_config") && top.child("linear_attn_config").has("gate_lower_bound");
  if (type == "kimi_linear" && !has_bound) {
    refuse_kimi_linear(source, "model_type kimi_linear at top level, no linear_attn_config.gate_lower_bound");
  }
  return top;
}

void refuse_other_families(const ConfigObject& text, const ConfigObject& linear, std::string_view source) {
  text.only("model_type", "kimi_linear", "the text model of Kimi K3 has this type");
  if (!linear.has("gate_lower_bound")) {
    refuse_kimi_linear(source, "no " + linear.name("gate_lower_bound") + ", so the decay gate would be a softplus");
  }
  const std::string activation = text.text("hidden_act");
  if (activation == "silu") refuse_kimi_linear(source, text.name("hidden_act") + " is \"silu\"");
  if (activation != "situ") {
    text.refuse("hidden_act", '"' + activation + '"', "activations known: situ", kTakePublished);
  }
}

// What K3 fixes. An absent key is taken as K3's own value only where the published code has that default.
void check_fixed_choices(const ConfigObject& top, const ConfigObject& text, const ConfigObject& linear) {
  text.require("moe_router_activation_func", "sigmoid", "router scores are sigmoids");
  text.require("topk_method", "noaux_tc", "experts are chosen by biased score, weighed by the unbiased one");
  text.only("moe_renormalize", true, "the weights of the chosen experts sum to one");
  text.only("num_expert_group", 1, "experts are not grouped");
  text.only("topk_group", 1, "experts are not grouped");
  text.only("moe_layer_freq", 1, "every layer after the dense ones has experts");
  text.only("num_nextn_predict_layers", 0, "there are no prediction layers in the files");
  text.only("mla_use_nope", true, "attention is not rotated");
  text.only("mla_use_output_gate", true, "attention output is gated");
  text.only("tie_word_embeddings", false, "the head has its own weights");
  top.only("tie_word_embeddings", false, "the head has its own weights");
  linear.only("use_full_rank_gate", true, "the output gate is one projection");
}

void read_sizes(const ConfigObject& text, const ConfigObject& linear, Config& c) {
  const auto size = [&](const char* key) { return text.integer(key, 1, kMaxSize); };
  c.vocab_size = text.integer("vocab_size", 1, INT32_MAX);
  c.hidden_size = size("hidden_size");
  c.num_hidden_layers = size("num_hidden_layers");
  c.num_attention_heads = text.integer("num_attention_heads", 1, 1 << 20);
  text.only("num_key_value_heads", c.num_attention_heads, "MLA expands one key and value per head");
  c.q_lora_rank = size("q_lora_rank");
  c.kv_lora_rank = size("kv_lora_rank");
  c.qk_nope_head_dim = text.integer("qk_nope_head_dim", 1, 1 << 20);
  c.qk_rope_head_dim = text.integer("qk_rope_head_dim", 1, 1 << 20);
  c.v_head_dim = text.integer("v_head_dim", 1, 1 << 20);
  c.intermediate_size = size("intermediate_size");
  c.moe_intermediate_size = size("moe_intermediate_size");
  c.routed_expert_hidden_size = size("routed_expert_hidden_size");
  c.num_experts = text.integer("num_experts", 1, INT32_MAX);
  c.num_experts_per_token = text.integer("num_experts_per_token", 1, c.num_experts);
  c.num_shared_experts = text.integer("num_shared_experts", 1, 1 << 20);
  c.first_k_dense_replace = text.integer("first_k_dense_replace", 0, c.num_hidden_layers);
  c.attn_res_block_size = size("attn_res_block_size");
  c.max_position_embeddings = text.integer("max_position_embeddings", 1, INT32_MAX);
  c.kda_num_heads = linear.integer("num_heads", 1, 1 << 20);
  c.kda_head_dim = linear.integer("head_dim", 1, 1 << 20);
  c.short_conv_kernel_size = linear.integer("short_conv_kernel_size", 1, 64);
}

float positive(const ConfigObject& object, const char* key) {
  const float value = object.real(key);
  if (!(value > 0.0f)) object.refuse(key, std::to_string(value), "must be above zero", kTakePublished);
  return value;
}

void read_reals(const ConfigObject& text, const ConfigObject& linear, Config& c) {
  c.rms_norm_eps = positive(text, "rms_norm_eps");
  c.activation_situ_beta = positive(text, "activation_situ_beta");
  c.activation_situ_linear_beta = positive(text, "activation_situ_linear_beta");
  c.routed_scaling_factor = text.has("routed_scaling_factor") ? positive(text, "routed_scaling_factor") : 1.0f;
  c.latent_moe_use_norm = !text.has("latent_moe_use_norm") || text.boolean("latent_moe_use_norm");
  c.gate_lower_bound = linear.real("gate_lower_bound");
  if (!(c.gate_lower_bound < 0.0f && c.gate_lower_bound >= -5.0f)) {
    linear.refuse("gate_lower_bound", std::to_string(c.gate_lower_bound),
                  "must be in [-5, 0): beyond it the decay of a 16-token segment leaves the range of a float",
                  kTakePublished);
  }
}

// Each layer must be in exactly one of the two one-based lists.
void read_layer_kinds(const ConfigObject& linear, Config& c) {
  const std::vector<int64_t> kda = linear.integers("kda_layers"), full = linear.integers("full_attn_layers");
  const std::string rule = "each layer from 1 to " + std::to_string(c.num_hidden_layers) +
                           " is in exactly one of kda_layers and full_attn_layers";
  // Sizes first: nothing is allocated for a layer count that the lists do not bear out.
  if (static_cast<int64_t>(kda.size() + full.size()) < c.num_hidden_layers) {
    linear.refuse("kda_layers",
                  std::to_string(kda.size()) + " layers here and " + std::to_string(full.size()) +
                      " in full_attn_layers, of " + std::to_string(c.num_hidden_layers) + "; a layer is missing",
                  rule, kTakePublished);
  }
  enum : char { kNone, kKda, kFull };
  std::vector<char> kind(static_cast<size_t>(c.num_hidden_layers), kNone);
  const auto take = [&](const std::vector<int64_t>& list, const char* key, char as) {
    for (const int64_t layer : list) {
      if (layer < 1 || layer > c.num_hidden_layers) {
        linear.refuse(key, "layer " + std::to_string(layer) + ", out of range", rule, kTakePublished);
      }
      char& slot = kind[static_cast<size_t>(layer - 1)];
      if (slot != kNone) linear.refuse(key, "layer " + std::to_string(layer) + " a second time", rule, kTakePublished);
      slot = as;
    }
  };
  take(kda, "kda_layers", kKda);
  take(full, "full_attn_layers", kFull);
  c.is_kda.assign(kind.size(), false);
  for (size_t l = 0; l < kind.size(); ++l) c.is_kda[l] = kind[l] == kKda;
}

void read_eos(const ConfigObject& top, const ConfigObject& text, Config& c) {
  const ConfigObject* from = top.has("eos_token_id") ? &top : text.has("eos_token_id") ? &text : nullptr;
  if (from == nullptr) return;
  for (const int64_t id : from->integer_or_integers("eos_token_id")) {
    if (id < 0 || id >= c.vocab_size) {
      from->refuse("eos_token_id", std::to_string(id),
                   "token ids are from 0 to " + std::to_string(c.vocab_size - 1) + " (vocab_size)", kTakePublished);
    }
    c.eos_token_id.push_back(static_cast<int32_t>(id));
  }
}

json parse_json(std::string_view text, std::string_view source) {
  try {
    json out = json::parse(text);
    if (out.is_object()) return out;
    throw Refusal({.what = std::string(source),
                   .seen = "JSON, but not an object",
                   .rule = "config.json holds one object",
                   .fix = kTakePublished});
  } catch (const json::exception& e) {
    throw Refusal({.what = std::string(source),
                   .seen = std::string("not JSON: ") + e.what(),
                   .rule = "config.json holds one JSON object",
                   .fix = "download config.json again"});
  }
}

}  // namespace

int64_t Config::kda_layers() const { return std::count(is_kda.begin(), is_kda.end(), true); }

Config parse_config(std::string_view text_of_file, std::string_view source) {
  const json file = parse_json(text_of_file, source);
  const ConfigObject top(file, std::string(source), "");
  const ConfigObject text = find_text_config(top, source);
  const ConfigObject linear = text.child("linear_attn_config");
  refuse_other_families(text, linear, source);
  check_fixed_choices(top, text, linear);
  Config c;
  read_sizes(text, linear, c);
  read_reals(text, linear, c);
  read_layer_kinds(linear, c);
  read_eos(top, text, c);
  // ModelOpt moves the declaration to the top level.
  c.declared_quantization = check_quantization(text.has("quantization_config") ? text : top);
  return c;
}

Config load_config(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "config.json";
  const MappedFile file = MappedFile::open(path, "a checkpoint directory holds config.json");
  if (file.size() > kMaxConfigBytes) {
    throw Refusal({.what = path.string(),
                   .seen = std::to_string(file.size()) + " bytes",
                   .rule = "a config.json has a few kilobytes",
                   .fix = kTakePublished});
  }
  return parse_config(file.text(), path.string());
}

}  // namespace nibble::checkpoint
