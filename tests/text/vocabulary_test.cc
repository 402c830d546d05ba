// tiktoken.model and tokenizer_config.json: what is read, and each fault refused with the text a user sees.
#include "text/vocabulary.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "testing.h"
#include "text/base64.h"
#include "text/control_tokens.h"

namespace nibble::text {
namespace {

using Lines = std::vector<std::string>;
using ::nibble::text::testing::refusal;

Lines tiny_lines() {
  Lines lines;
  const std::string file = testing::read("models/k3-tiny/tiktoken.model");
  for (size_t at = 0; at < file.size(); at = file.find('\n', at) + 1) {
    lines.push_back(file.substr(at, file.find('\n', at) - at));
  }
  return lines;
}

std::string joined(const Lines& lines, const std::string& end = "\n") {
  std::string file;
  for (const std::string& line : lines) file += line + end;
  return file;
}

// The refusal of the bundled vocabulary with one fault planted.
std::string refused(const std::function<void(Lines&)>& plant, int64_t expected_size = 1792) {
  Lines lines = tiny_lines();
  plant(lines);
  return refusal([&] { Vocabulary::parse(joined(lines), expected_size); });
}

TEST(Base64, DecodesWhatTheRfcListsAndNothingLoose) {
  const std::vector<std::pair<std::string, std::string>> good = {{"", ""},
                                                                 {"Zg==", "f"},
                                                                 {"Zm8=", "fo"},
                                                                 {"Zm9v", "foo"},
                                                                 {"Zm9vYg==", "foob"},
                                                                 {"Zm9vYmE=", "fooba"},
                                                                 {"+/8=", "\xFB\xFF"}};
  std::string bytes;
  for (const auto& [encoded, want] : good) {
    ASSERT_TRUE(decode_base64(encoded, bytes)) << encoded;
    EXPECT_EQ(bytes, want);
  }
  for (const std::string bad :
       {"Z", "Zg", "Zg=", "Zg===", "Z===", "====", "=", "Zh==", "Zm9=", "Zm 9v", "Zm9v\n", "Zm9-", "Zg==Zg=="}) {
    EXPECT_FALSE(decode_base64(bad, bytes)) << bad;
  }
}

TEST(Vocabulary, ReadsTheBundledFileInAnyOrderAndEitherLineEnd) {
  Lines lines = tiny_lines();
  const Vocabulary straight = Vocabulary::parse(joined(lines), 1792);
  std::reverse(lines.begin(), lines.end());
  const Vocabulary turned = Vocabulary::parse(joined(lines, "\r\n"), 1792);
  const Vocabulary trailing = Vocabulary::parse(joined(lines) + "\n", 1792);
  ASSERT_EQ(straight.size(), 1792);
  for (int32_t id = 0; id < 1792; ++id) {
    EXPECT_EQ(straight.find(straight.bytes(id)), id);
    EXPECT_EQ(turned.bytes(id), straight.bytes(id));
    EXPECT_EQ(trailing.bytes(id), straight.bytes(id));
  }
  EXPECT_EQ(straight.find("no such token"), -1);
}

TEST(Vocabulary, RankNeedNotEqualByteValue) {  // as in the published vocabulary, whose rank 1 is the quote
  Lines lines = tiny_lines();
  std::swap(lines[0], lines[34]);  // now rewrite the ranks by place
  for (size_t i = 0; i < lines.size(); ++i) lines[i] = lines[i].substr(0, lines[i].find(' ') + 1) + std::to_string(i);
  const Vocabulary vocabulary = Vocabulary::parse(joined(lines), 1792);
  EXPECT_EQ(vocabulary.single_byte('"'), 0);
  EXPECT_EQ(vocabulary.single_byte(0), 34);
}

TEST(Vocabulary, RefusesAGap) {
  EXPECT_EQ(refused([](Lines& lines) { lines.erase(lines.begin() + 700); }),
            "refused: tiktoken.model: no rank 700; 1791 lines; "
            "rule: ranks run from 0 without a gap, because the ids after them are the control tokens; "
            "try: download tiktoken.model of this checkpoint again");
}

TEST(Vocabulary, RefusesADuplicateRank) {
  EXPECT_EQ(refused([](Lines& lines) { lines[16] = "/8KA 5"; }),
            "refused: tiktoken.model: rank 5 on line 6 and on line 17; "
            "rule: a rank is a token's id, so no two tokens share one; "
            "try: download tiktoken.model of this checkpoint again");
}

TEST(Vocabulary, RefusesADuplicateToken) {
  EXPECT_EQ(refused([](Lines& lines) { lines[900] = lines[300].substr(0, lines[300].find(' ')) + " 900"; }),
            "refused: tiktoken.model: ranks 300 and 900 are the same bytes; "
            "rule: a token has one rank, or the same text could have two encodings; "
            "try: download tiktoken.model of this checkpoint again");
}

TEST(Vocabulary, RefusesBadBase64) {
  for (const char* bad : {"Zh== 900", "*** 900", "Z 900", " 900", "==== 900"}) {
    EXPECT_EQ(refused([&](Lines& lines) { lines[900] = bad; }),
              "refused: tiktoken.model: line 901: the token is not base64; "
              "rule: a token is at least one byte, in padded base64 of the standard alphabet; "
              "try: download tiktoken.model of this checkpoint again")
        << bad;
  }
}

TEST(Vocabulary, RefusesAMalformedLine) {
  for (const char* bad :
       {"", "/8KA", "/8KA ", "/8KA x", "/8KA 900 ", "/8KA  900", "/8KA -1", "/8KA 99999999999999999999", "/8KA 9e2"}) {
    EXPECT_EQ(refused([&](Lines& lines) { lines[900] = bad; }),
              "refused: tiktoken.model: line 901 is not `base64 rank`; "
              "rule: each line is a token in base64, one space, its rank in decimal; "
              "try: download tiktoken.model of this checkpoint again")
        << bad;
  }
}

TEST(Vocabulary, RefusesAMissingSingleByte) {
  EXPECT_EQ(refused([](Lines& lines) { lines[65] = "//// 65"; }),
            "refused: tiktoken.model: no token for the single byte 65; "
            "rule: all 256 single bytes are tokens, so that any text has an encoding; "
            "try: download tiktoken.model of this checkpoint again");
}

TEST(Vocabulary, RefusesAnotherCountThanTheConfigs) {
  EXPECT_EQ(refused([](Lines&) {}, 163584),
            "refused: tiktoken.model: 1792 ranks; vocab_size 163840 (config.json); "
            "rule: vocab_size is the ranks and 256 control tokens, so 163584 ranks; "
            "try: download tiktoken.model of this checkpoint again");
}

std::string config_with(const std::string& from, const std::string& to) {
  std::string config = testing::read("models/k3-tiny/tokenizer_config.json");
  const size_t at = config.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return config.replace(at, from.size(), to);
}

std::string config_refusal(const std::string& json) {
  return refusal([&] { ControlTokens::parse(json, 1792); });
}

TEST(ControlTokens, NamesEveryId) {
  const ControlTokens tokens = ControlTokens::parse(testing::read("models/k3-tiny/tokenizer_config.json"), 1792);
  EXPECT_EQ(tokens.open, 1795);
  EXPECT_EQ(tokens.close, 1796);
  EXPECT_EQ(tokens.sep, 1797);
  EXPECT_EQ(tokens.end_of_message, 1794);
  EXPECT_EQ(tokens.eos, 1793);
  EXPECT_EQ(tokens.pad, 2047);
  EXPECT_EQ(tokens.unknown, 2046);
  EXPECT_EQ(tokens.find("[BOS]"), 1792);
  EXPECT_EQ(tokens.find("<|media_pad|>"), 1813);
  EXPECT_EQ(tokens.find("<think>"), std::nullopt);
  EXPECT_EQ(tokens.name(1800), "<|reserved_token_1800|>");
  for (int32_t id = 1792; id < 2048; ++id) EXPECT_EQ(tokens.find(tokens.name(id)), id);
}

TEST(ControlTokens, StructureDoesNotDependOnTheSpecialFlag) {
  std::string config = testing::read("models/k3-tiny/tokenizer_config.json");
  for (const std::string flag : {"\"special\": true,", "\"special\": false,"}) {
    for (size_t at = config.find(flag); at != config.npos; at = config.find(flag)) config.erase(at, flag.size());
  }
  ASSERT_EQ(config.find("special"), config.npos);
  EXPECT_EQ(ControlTokens::parse(config, 1792).open, 1795);
}

// K2's tokenizer files have the same ids under other names.
TEST(ControlTokens, RefusesK2NamesByName) {
  EXPECT_EQ(
      config_refusal(config_with("<|end_of_msg|>", "<|im_end|>")),
      "refused: tokenizer_config.json: no control token named <|end_of_msg|>; "
      "rule: Kimi K3's markers are <|open|>, <|close|>, <|sep|>, <|end_of_msg|> and [EOS]; Kimi K2's tokenizer has "
      "the same ids under other names; "
      "try: download tokenizer_config.json of this checkpoint again");
  for (const char* name : {"<|open|>", "<|close|>", "<|sep|>", "[EOS]"}) {
    const std::string content = "\"content\": \"" + std::string(name) + "\"";
    EXPECT_NE(config_refusal(config_with(content, "\"content\": \"other\""))
                  .find("no control token named " + std::string(name)),
              std::string::npos);
  }
}

TEST(ControlTokens, RefusesMalformedFiles) {
  const auto refused_with = [](const std::string& json, const std::string& seen) {
    EXPECT_NE(config_refusal(json).find(": " + seen), std::string::npos) << config_refusal(json);
  };
  refused_with("", "the file is not a JSON object");
  refused_with("[]", "the file is not a JSON object");
  refused_with("{\"added_tokens_decoder\": {", "the file is not a JSON object");
  refused_with("{}", "no object added_tokens_decoder");
  refused_with("{\"added_tokens_decoder\": []}", "no object added_tokens_decoder");
  refused_with(config_with("\"1795\"", "\"1791\""), "added_tokens_decoder: id \"1791\"");
  refused_with(config_with("\"1795\"", "\"2048\""), "added_tokens_decoder: id \"2048\"");
  refused_with(config_with("\"1795\"", "\"x\""), "added_tokens_decoder: id \"x\"");
  refused_with(config_with("\"1795\"", "\"99999999999\""), "added_tokens_decoder: id \"99999999999\"");
  refused_with(config_with("\"content\": \"<|open|>\"", "\"content\": 3"),
               "added_tokens_decoder: id 1795 has no content");
  refused_with(config_with("\"content\": \"<|open|>\"", "\"content\": \"\""),
               "added_tokens_decoder: id 1795 has no content");
  refused_with(config_with("\"content\": \"[EOT]\"", "\"content\": \"[BOS]\""), "ids 1792 and 1801 are both \"[BOS]\"");
  refused_with(config_with("\"content\": \"[EOT]\"", "\"content\": \"<|reserved_token_1800|>\""),
               "ids 1800 and 1801 are both");
}

TEST(Tokenizer, RefusesMissingFilesAndSizes) {
  const std::filesystem::path empty =
      std::filesystem::temp_directory_path() / ("nibble_vocabulary_test_" + std::to_string(getpid()));
  std::filesystem::create_directories(empty);
  EXPECT_EQ(refusal([&] { Tokenizer::load(empty, 2048); }),
            "refused: " + (empty / "tiktoken.model").string() +
                ": no such file, or it cannot be read; "
                "rule: a checkpoint directory holds tiktoken.model and tokenizer_config.json beside its weights; "
                "try: download the tokenizer files of this checkpoint into the directory");
  std::filesystem::copy_file(testing::source_path("models/k3-tiny/tiktoken.model"), empty / "tiktoken.model",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_NE(refusal([&] { Tokenizer::load(empty, 2048); }).find((empty / "tokenizer_config.json").string()),
            std::string::npos);
  std::filesystem::remove_all(empty);
  for (const int64_t size : {int64_t{0}, int64_t{-5}, int64_t{256}, int64_t{512}, int64_t{1} << 40}) {
    EXPECT_EQ(refusal([&] { Tokenizer::load(testing::source_path("models/k3-tiny"), size); }),
              "refused: vocab_size " + std::to_string(size) +
                  ": config.json: text_config.vocab_size; "
                  "rule: a vocabulary holds the 256 single bytes, tokens made of them, and 256 control tokens; "
                  "try: download config.json of this checkpoint again");
  }
}

}  // namespace
}  // namespace nibble::text
