// generation_config.json: its few fields, in each form that is published or ours.
#include "text/generation_defaults.h"

#include <gtest/gtest.h>

#include "testing.h"

namespace nibble::text {
namespace {

TEST(GenerationDefaults, ReadsTheBundledAndThePublishedForm) {
  const GenerationDefaults tiny = load_generation_defaults(testing::source_path("models/k3-tiny"));
  EXPECT_EQ(tiny.eos_token_ids, std::vector<int32_t>{1794});
  EXPECT_EQ(tiny.max_length, 4096);
  EXPECT_EQ(tiny.effort, std::nullopt);
  const GenerationDefaults published = parse_generation_defaults(R"({"max_length": 1048576, "eos_token_id": 163586})");
  EXPECT_EQ(published.eos_token_ids, std::vector<int32_t>{163586});
  EXPECT_EQ(published.max_length, 1048576);
  EXPECT_EQ(published.effort, Effort::kMax);
  EXPECT_EQ(parse_generation_defaults(R"({"eos_token_id": [1, 2], "thinking_effort": "low"})").eos_token_ids,
            (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(parse_generation_defaults(R"({"thinking_effort": "low"})").effort, Effort::kLow);
  EXPECT_EQ(load_generation_defaults(testing::source_path("tests")).effort, Effort::kMax);
}

TEST(GenerationDefaults, RefusesByField) {
  const auto seen = [](const std::string& json) {
    const std::string text = testing::refusal([&] { parse_generation_defaults(json); });
    return text.substr(0, text.find("; rule: "));
  };
  EXPECT_EQ(testing::refusal([] { parse_generation_defaults("nope"); }),
            "refused: generation_config.json: not a JSON object; "
            "rule: generation defaults are read from a JSON object; "
            "try: correct the file, or download generation_config.json of this checkpoint again");
  EXPECT_EQ(seen(R"({"eos_token_id": "x"})"), "refused: generation_config.json: eos_token_id: \"x\"");
  EXPECT_EQ(seen(R"({"eos_token_id": [1, -1]})"), "refused: generation_config.json: eos_token_id: -1");
  EXPECT_EQ(seen(R"({"eos_token_id": 1.5})"), "refused: generation_config.json: eos_token_id: 1.5");
  EXPECT_EQ(seen(R"({"eos_token_id": 99999999999})"), "refused: generation_config.json: eos_token_id: 99999999999");
  EXPECT_EQ(seen(R"({"max_length": 0})"), "refused: generation_config.json: max_length: 0");
  EXPECT_EQ(seen(R"({"thinking_effort": "medium"})"), "refused: generation_config.json: thinking_effort: \"medium\"");
}

}  // namespace
}  // namespace nibble::text
