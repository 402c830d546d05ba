// config.json: what the bundled model and K3 say is read; what this engine cannot run is refused by key.
#include "checkpoint/config.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "checkpoint/files.h"

namespace nibble::checkpoint {
namespace {

using nlohmann::json;
using Change = std::function<void(json& file, json& text)>;

std::string refusal_of_text(const std::string& text) {
  try {
    parse_config(text, "config.json");
  } catch (const Refusal& refusal) {
    return refusal.what();
  }
  return "";
}
std::string refusal_after(const Change& change) {
  json file = Files::small().config;
  change(file, file["text_config"]);
  return refusal_of_text(file.dump());
}
std::string refusal_with(const char* key, const json& value) {
  return refusal_after([&](json&, json& text) { text[key] = value; });
}
std::string refusal_with_linear(const char* key, const json& value) {
  return refusal_after([&](json&, json& text) { text["linear_attn_config"][key] = value; });
}

TEST(ConfigJson, IsReadWhole) {
  const Config c = parse_config(Files::small().config.dump(), "config.json");
  EXPECT_EQ(c.num_hidden_layers, 4);
  EXPECT_EQ(c.is_kda, (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(c.kda_layers(), 3);
  EXPECT_EQ(c.mla_layers(), 1);
  EXPECT_EQ(c.gate_lower_bound, -5.0f);
  EXPECT_EQ(c.eos_token_id, std::vector<int32_t>{1794});
  EXPECT_EQ(c.declared_quantization, "compressed-tensors mxfp4-pack-quantized");
  EXPECT_TRUE(!c.is_moe(0) && c.is_moe(1));
}

TEST(ConfigJson, StopIdsMayBeAListAndQuantizationMaySitOnTop) {
  json file = Files::small().config;
  file["eos_token_id"] = {1794, 1793};
  file["text_config"].erase("quantization_config");
  file["quantization_config"] = {{"quant_method", "modelopt_mixed"}, {"quant_algo", "MIXED_PRECISION"}};
  const Config c = parse_config(file.dump(), "config.json");
  EXPECT_EQ(c.eos_token_id, (std::vector<int32_t>{1794, 1793}));
  EXPECT_EQ(c.declared_quantization, "modelopt_mixed MIXED_PRECISION");
}

TEST(ConfigJson, TextConfigMayBeTheWholeFile) {
  const json text = Files::small().config["text_config"];
  EXPECT_EQ(parse_config(text.dump(), "config.json").num_hidden_layers, 4);
}

TEST(ConfigJson, WhatIsNotJsonIsRefused) {
  expect_refused(refusal_of_text(""), {"config.json", "not JSON"});
  expect_refused(refusal_of_text("[1]"), {"not an object"});
  expect_refused(refusal_of_text("{\"a\": \"\xFF\"}"), {"not JSON"});
  expect_refused(refusal_of_text(std::string(1 << 20, '[')), {"not JSON"});
  expect_refused(refusal_of_text(std::string(1 << 20, '{')), {"not JSON"});
}

TEST(ConfigJson, OtherFamiliesAreNamed) {
  expect_refused(refusal_of_text("{}"), {"model_type", "known here: kimi_k3"});
  expect_refused(refusal_after([](json& file, json&) { file["model_type"] = "deepseek_v3"; }),
                 {"model_type", "\"deepseek_v3\""});
  expect_refused(refusal_of_text("{\"model_type\": \"llama\"}"), {"\"llama\"", "known here: kimi_k3"});
}

TEST(ConfigJson, KimiLinearIsRecognised) {
  json text = Files::small().config["text_config"];
  text["linear_attn_config"].erase("gate_lower_bound");
  expect_refused(refusal_of_text(text.dump()),
                 {"a Kimi-Linear checkpoint", "model_type kimi_linear at top level", "softplus"});
  expect_refused(refusal_after([](json&, json& t) { t["linear_attn_config"].erase("gate_lower_bound"); }),
                 {"a Kimi-Linear checkpoint", "gate_lower_bound"});
  expect_refused(refusal_with("hidden_act", "silu"),
                 {"a Kimi-Linear checkpoint", "text_config.hidden_act is \"silu\""});
}

TEST(ConfigJson, UnknownChoicesAreRefusedByKey) {
  expect_refused(refusal_with("hidden_act", "relu"), {"text_config.hidden_act", "\"relu\"", "activations known: situ"});
  expect_refused(refusal_with("moe_router_activation_func", "softmax"),
                 {"moe_router_activation_func", "\"softmax\"", "only \"sigmoid\""});
  expect_refused(refusal_with("topk_method", "greedy"), {"topk_method", "only \"noaux_tc\""});
  expect_refused(refusal_with("moe_renormalize", false), {"moe_renormalize", "false"});
  expect_refused(refusal_with("num_expert_group", 8), {"num_expert_group", "only 1"});
  expect_refused(refusal_with("mla_use_nope", false), {"mla_use_nope"});
  expect_refused(refusal_with("num_nextn_predict_layers", 1), {"num_nextn_predict_layers"});
  expect_refused(refusal_with_linear("use_full_rank_gate", false),
                 {"text_config.linear_attn_config.use_full_rank_gate"});
  expect_refused(refusal_after([](json& file, json&) { file["tie_word_embeddings"] = true; }), {"tie_word_embeddings"});
}

TEST(ConfigJson, MissingAndMistypedKeysAreRefused) {
  expect_refused(refusal_after([](json&, json& t) { t.erase("kv_lora_rank"); }),
                 {"text_config.kv_lora_rank", "missing"});
  expect_refused(refusal_after([](json&, json& t) { t.erase("topk_method"); }), {"text_config.topk_method", "missing"});
  expect_refused(refusal_with("hidden_size", "192"), {"text_config.hidden_size", "\"192\"", "a whole number"});
  expect_refused(refusal_with("hidden_size", 192.5), {"a whole number"});
  expect_refused(refusal_with("hidden_size", 0), {"must be from 1"});
  expect_refused(refusal_with("hidden_size", UINT64_MAX), {"must be from 1"});
  expect_refused(refusal_with("num_experts_per_token", 5), {"num_experts_per_token", "from 1 to 4"});
  expect_refused(refusal_with("rms_norm_eps", 0), {"rms_norm_eps", "above zero"});
  expect_refused(refusal_with("rms_norm_eps", nullptr), {"rms_norm_eps", "missing"});
  expect_refused(refusal_with_linear("gate_lower_bound", -6.0), {"gate_lower_bound", "[-5, 0)"});
  expect_refused(refusal_with_linear("gate_lower_bound", 0), {"gate_lower_bound", "[-5, 0)"});
  expect_refused(refusal_after([](json& file, json&) { file["eos_token_id"] = 2048; }),
                 {"eos_token_id", "from 0 to 2047"});
}

TEST(ConfigJson, EachLayerIsInExactlyOneList) {
  expect_refused(refusal_with_linear("kda_layers", {1, 2}), {"kda_layers", "a layer is missing"});
  expect_refused(refusal_with_linear("kda_layers", {1, 2, 2}), {"kda_layers", "layer 2 a second time"});
  expect_refused(refusal_with_linear("kda_layers", {1, 2, 3, 4}), {"full_attn_layers", "layer 4 a second time"});
  expect_refused(refusal_with_linear("kda_layers", {0, 1, 2}), {"kda_layers", "layer 0, out of range"});  // one-based
  expect_refused(refusal_with_linear("full_attn_layers", {5}), {"full_attn_layers", "layer 5, out of range"});
  expect_refused(refusal_with_linear("full_attn_layers", {"4"}), {"full_attn_layers", "a list of whole numbers"});
  expect_refused(refusal_with("num_hidden_layers", 2'000'000'000), {"a layer is missing"});  // and nothing is allocated
}

TEST(ConfigJson, UnknownQuantisationIsNamedWithTheKnownOnes) {
  const auto quantization = [](const char* key, const json& value) {
    return refusal_after([&](json&, json& t) { t["quantization_config"][key] = value; });
  };
  expect_refused(quantization("quant_method", "gptq"),
                 {"quantization_config.quant_method", "\"gptq\"", "formats known: compressed-tensors"});
  expect_refused(quantization("format", "pack-quantized"), {"quantization_config.format", "mxfp4-pack-quantized"});
  const auto weights = [](const char* key, const json& value) {
    return refusal_after(
        [&](json&, json& t) { t["quantization_config"]["config_groups"]["group_0"]["weights"][key] = value; });
  };
  expect_refused(weights("group_size", 64),
                 {"group_0.weights.group_size", "64", "MXFP4 has groups of 32, NVFP4 of 16"});
  expect_refused(weights("num_bits", 3), {"num_bits", "4 or 8 bits"});
  expect_refused(weights("type", "int"), {"weights.type", "integer formats are not implemented"});
}

}  // namespace
}  // namespace nibble::checkpoint
