#include "checkpoint/synth_text.h"

#include <nlohmann/json.hpp>

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace nibble::checkpoint {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kControlIds = 256;  // the last ids of the vocabulary

struct Shape {
  std::string_view name;
  int64_t vocab, layers, hidden, heads, kda_dim, q_lora, kv_lora, nope, rope, v_dim;
  int64_t dense, expert_width, latent, experts, top_k, attn_res_block, positions;
};
constexpr std::array kShapes = {
    Shape{"kimi-k3", 163840, 93, 7168, 96, 128, 1536, 512, 128, 64, 128, 33792, 3072, 3584, 896, 16, 12, 1048576},
    Shape{"k3-tiny", 2048, 13, 192, 4, 64, 96, 64, 64, 32, 64, 512, 64, 128, 32, 4, 4, 4096},
};

const Shape& find_shape(const SynthOptions& options) {
  for (const Shape& shape : kShapes) {
    if (shape.name == options.shape) return shape;
  }
  throw Refusal({.what = "--shape " + options.shape,
                 .seen = "an unknown shape",
                 .rule = "shapes known: kimi-k3, k3-tiny",
                 .fix = "--shape kimi-k3 --layers 4 --experts 64"});
}

ordered_json quantization(fp4::WeightFormat format) {
  const bool nv = format == fp4::WeightFormat::kNvfp4;
  const std::string name = nv ? "nvfp4-pack-quantized" : "mxfp4-pack-quantized";
  const ordered_json weights = {{"num_bits", 4},
                                {"type", "float"},
                                {"group_size", nv ? 16 : 32},
                                {"strategy", nv ? "tensor_group" : "group"},
                                {"symmetric", true},
                                {"dynamic", false},
                                {"scale_dtype", nv ? "torch.float8_e4m3fn" : "torch.uint8"}};
  const ordered_json group = {{"format", name}, {"targets", {"Linear"}}, {"weights", weights}};
  return {{"quant_method", "compressed-tensors"},
          {"format", name},
          {"quantization_status", "compressed"},
          {"ignore", {"re:.*self_attn.*", "re:.*shared_experts.*", "re:.*lm_head.*", "re:.*vision_tower.*"}},
          {"config_groups", {{"group_0", group}}}};
}

ordered_json linear_attention(const Shape& s, int64_t layers) {
  std::vector<int64_t> kda, full;  // one-based; the last layer is MLA whatever its number
  for (int64_t l = 1; l <= layers; ++l) (l % 4 == 0 || l == layers ? full : kda).push_back(l);
  return {{"num_heads", s.heads},       {"head_dim", s.kda_dim},    {"short_conv_kernel_size", 4},
          {"use_full_rank_gate", true}, {"gate_lower_bound", -5.0}, {"full_attn_layers", full},
          {"kda_layers", kda}};
}

ordered_json text_config(const Shape& s, const SynthOptions& options) {
  const int64_t layers = options.layers > 0 ? options.layers : s.layers;
  return {{"model_type", "kimi_linear"},
          {"vocab_size", s.vocab},
          {"hidden_size", s.hidden},
          {"num_hidden_layers", layers},
          {"num_attention_heads", s.heads},
          {"num_key_value_heads", s.heads},
          {"q_lora_rank", s.q_lora},
          {"kv_lora_rank", s.kv_lora},
          {"qk_nope_head_dim", s.nope},
          {"qk_rope_head_dim", s.rope},
          {"v_head_dim", s.v_dim},
          {"mla_use_nope", true},
          {"mla_use_output_gate", true},
          {"intermediate_size", s.dense},
          {"moe_intermediate_size", s.expert_width},
          {"routed_expert_hidden_size", s.latent},
          {"num_experts", options.experts > 0 ? options.experts : s.experts},
          {"num_experts_per_token", s.top_k},
          {"num_shared_experts", 2},
          {"first_k_dense_replace", 1},
          {"moe_layer_freq", 1},
          {"num_expert_group", 1},
          {"topk_group", 1},
          {"use_grouped_topk", true},
          {"topk_method", "noaux_tc"},
          {"moe_router_activation_func", "sigmoid"},
          {"moe_renormalize", true},
          {"routed_scaling_factor", 1.0},
          {"latent_moe_use_norm", true},
          {"hidden_act", "situ"},
          {"activation_situ_beta", 4.0},
          {"activation_situ_linear_beta", 25.0},
          {"attn_res_block_size", s.attn_res_block},
          {"rms_norm_eps", 1e-5},
          {"max_position_embeddings", s.positions},
          {"num_nextn_predict_layers", 0},
          {"tie_word_embeddings", false},
          {"linear_attn_config", linear_attention(s, layers)},
          {"quantization_config", quantization(options.format)}};
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    for (size_t j = 0; j < 3; ++j) group = group << 8 | (j < n ? static_cast<uint8_t>(bytes[i + j]) : 0u);
    for (size_t j = 0; j < 4; ++j) out += j <= n ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

}  // namespace

std::string synth_config_json(const SynthOptions& options) {
  const Shape& s = find_shape(options);
  const int64_t first = s.vocab - kControlIds;
  const ordered_json out = {{"architectures", {"KimiK3ForConditionalGeneration"}},
                            {"model_type", "kimi_k3"},
                            {"dtype", "bfloat16"},
                            {"tie_word_embeddings", false},
                            {"bos_token_id", first},
                            {"eos_token_id", first + 2},
                            {"pad_token_id", s.vocab - 1},
                            {"media_placeholder_token_id", first + 21},
                            {"image_placeholder", "<|kimi_image_placeholder|>"},
                            {"text_config", text_config(s, options)}};
  return out.dump(2) + "\n";
}

std::string synth_generation_config_json(const SynthOptions& options) {
  const Shape& s = find_shape(options);
  return ordered_json{{"max_length", s.positions}, {"eos_token_id", s.vocab - kControlIds + 2}}.dump() + "\n";
}

std::string synth_vocabulary(int64_t ranks) {
  constexpr std::string_view kLetters = " etaoinshrdlucmfwypvbgkjqxzETAOINSHRDL.,0123456789\n";
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  std::vector<std::string> shorter;
  for (const char c : kLetters) shorter.emplace_back(1, c);
  while (static_cast<int64_t>(tokens.size()) < ranks) {
    std::vector<std::string> longer;
    for (const std::string& head : shorter) {
      for (const char c : kLetters) {
        if (static_cast<int64_t>(tokens.size()) < ranks) tokens.push_back(longer.emplace_back(head + c));
      }
    }
    shorter = std::move(longer);
  }
  std::string out;
  for (size_t rank = 0; rank < tokens.size(); ++rank) out += base64(tokens[rank]) + " " + std::to_string(rank) + "\n";
  return out;
}

std::string synth_tokenizer_config(int64_t first, int64_t max_length) {
  struct Control {
    int64_t offset;
    const char* name;
    bool special;
  };
  constexpr std::array kControls = {Control{0, "[BOS]", true},
                                    Control{1, "[EOS]", true},
                                    Control{2, "<|end_of_msg|>", true},
                                    Control{3, "<|open|>", false},
                                    Control{4, "<|close|>", false},
                                    Control{5, "<|sep|>", false},
                                    Control{6, "[start_header_id]", true},
                                    Control{7, "[end_header_id]", true},
                                    Control{9, "[EOT]", true},
                                    Control{18, "<|media_begin|>", true},
                                    Control{19, "<|media_content|>", true},
                                    Control{20, "<|media_end|>", true},
                                    Control{21, "<|media_pad|>", true},
                                    Control{65, "<osagent_mode>", true},
                                    Control{254, "[UNK]", true},
                                    Control{255, "[PAD]", true}};
  ordered_json decoder = ordered_json::object();
  for (const Control& c : kControls) {
    decoder[std::to_string(first + c.offset)] = {{"content", c.name}, {"special", c.special}, {"lstrip", false},
                                                 {"rstrip", false},   {"normalized", false},  {"single_word", false}};
  }
  return ordered_json{{"tokenizer_class", "TikTokenTokenizer"},
                      {"bos_token", "[BOS]"},
                      {"eos_token", "[EOS]"},
                      {"unk_token", "[UNK]"},
                      {"pad_token", "[PAD]"},
                      {"model_max_length", max_length},
                      {"added_tokens_decoder", decoder}}
             .dump(1) +
         "\n";
}

}  // namespace nibble::checkpoint
