// The walker over JSON text, against a parser that builds values.
#include "text/json_text.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <random>
#include <string>

#include "testing.h"

namespace nibble::text {
namespace {

using Json = nlohmann::json;

TEST(JsonText, AcceptsExactlyJson) {
  for (const std::string good : {"0", "-0", "1.5e-3", "1E9", "\"\"", "\"\\ud83d\\ude00\"", "[]", "[ 1 , {} ]",
                                 "{\"a\":{\"b\":[null]}}", " true ", "\"\x7F\"", "\"\\/\""}) {
    EXPECT_TRUE(is_json(good)) << good;
    EXPECT_TRUE(Json::accept(good)) << good;
  }
  for (const std::string bad : {"",       " ",       "01",          "-",           "1.",          ".5",
                                "1e",     "+1",      "tru",         "truex",       "\"",          "\"\\\"",
                                "\"\n\"", "\"\\x\"", "\"\\u12g4\"", "\"\\ud800\"", "\"\\udc00\"", "\"\\ud800\\u0041\"",
                                "[1,]",   "[,1]",    "{\"a\"}",     "{\"a\":}",    "{a:1}",       "{\"a\":1,}",
                                "[1 2]",  "NaN",     "Infinity",    "'a'",         "\"\xFF\"",    "[",
                                "{",      "[}",      "1 2"}) {
    EXPECT_FALSE(is_json(bad)) << bad;
    EXPECT_FALSE(Json::accept(bad)) << bad;
  }
}

// Random edits of valid text: both must agree on each, whatever they say.
TEST(JsonText, AgreesWithAParserOnDamagedText) {
  std::mt19937_64 random(8);
  const std::string seed = R"({"a":[1,-2.5e+3,"x\n\u00e9\ud83d\ude00",true,null,{"b c":{}}],"":"\\","n":0})";
  const std::string alphabet = "{}[]:,\"\\0123e+-.tfnu a\n\xC3\xA9";
  int64_t accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = seed;
    for (uint64_t edits = random() % 3; edits > 0; --edits) {
      const size_t at = random() % text.size();
      if (random() % 2) {
        text[at] = alphabet[random() % alphabet.size()];
      } else {
        text.erase(at, 1);
      }
    }
    ASSERT_EQ(is_json(text), Json::accept(text)) << text;
    accepted += is_json(text);
    const auto members = json_members(text);
    ASSERT_EQ(members.has_value(), json_literal(text) && text[0] == '{') << text;
    if (!members || !is_json(text)) continue;
    const Json parsed = Json::parse(text);
    ASSERT_EQ(members->size(), parsed.size());
    for (const JsonMember& member : *members) {
      ASSERT_EQ(Json::parse(member.literal), parsed.at(member.key)) << text;
      ASSERT_STREQ(member.type, parsed.at(member.key).type_name()) << text;
    }
  }
  EXPECT_GT(accepted, 4000);
}

TEST(JsonText, EscapesAndDecodesEveryCharacter) {
  std::mt19937_64 random(9);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = testing::random_text(random, 10) + static_cast<char>(random() % 32);
    EXPECT_EQ(Json::parse(json_quoted(text)).get<std::string>(), text);
    EXPECT_EQ(json_quoted(text), Json(text).dump());
    EXPECT_EQ(json_decode_string(json_quoted(text)), text);
    EXPECT_EQ(json_decode_string(Json(text).dump(-1, ' ', true)), text);
  }
}

TEST(JsonText, DepthIsLimited) {
  EXPECT_TRUE(is_json(std::string(128, '[') + std::string(128, ']')));
  EXPECT_FALSE(is_json(std::string(129, '[') + std::string(129, ']')));
  EXPECT_FALSE(is_json(std::string(1000000, '[')));
}

TEST(JsonText, ManyMembersAreNotQuadratic) {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i) text += (i ? ",\"" : "\"") + std::to_string(i) + "\":" + std::to_string(i);
  text += "}";
  const auto members = json_members(text);  // views into text
  ASSERT_TRUE(members);
  EXPECT_EQ(members->size(), 200000u);
  EXPECT_EQ(members->back().literal, "199999");
}

}  // namespace
}  // namespace nibble::text
