// What comes out where tokens are drawn at random under a constraint: always what was asked for, and always to its end.
#include "constrain/matcher.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <bit>
#include <optional>

#include "base/error.h"
#include "constrain/json_schema.h"
#include "constrain/random_schema.h"
#include "constrain/toy_vocabulary.h"
#include "constrain/validator.h"
#include "text/utf8.h"

namespace nibble::constrain {
namespace {

std::vector<int32_t> bits(std::span<const uint64_t> words) {
  std::vector<int32_t> out;
  for (size_t i = 0; i < words.size(); ++i) {
    for (uint64_t w = words[i]; w != 0; w &= w - 1) out.push_back(static_cast<int32_t>(i * 64) + std::countr_zero(w));
  }
  return out;
}
std::vector<int32_t> allowed(Matcher& matcher, const ToyVocabulary& vocabulary) {
  std::vector<uint64_t> words(vocabulary.words(), ~uint64_t{0});
  matcher.restrict(words);
  return bits(words);
}

struct Drawn {
  std::string text;
  bool ended = false;
};

// Random logits, with a pull to the shortest tokens that end something, so that most texts end.
Drawn draw(const ToyVocabulary& vocabulary, const std::shared_ptr<Compiled>& compiled, std::mt19937_64& random,
           int most) {
  Matcher matcher(compiled);
  Drawn out;
  for (int i = 0; i < most; ++i) {
    const std::vector<int32_t> ids = allowed(matcher, vocabulary);
    EXPECT_FALSE(ids.empty()) << "stuck behind " << out.text;
    if (ids.empty()) return out;
    int32_t id = ids[random() % ids.size()];
    for (const int32_t candidate : ids) {
      const bool closing = candidate < vocabulary.ordinary() &&
                           std::string_view("\"}],1").find(vocabulary.bytes(candidate)) != std::string_view::npos;
      if ((candidate == vocabulary.end() && random() % 3 == 0) || (closing && i > 20 && random() % 4 == 0))
        id = candidate;
    }
    EXPECT_TRUE(matcher.advance(id));
    if (id == vocabulary.end()) {
      out.ended = true;
      return out;
    }
    out.text += vocabulary.bytes(id);
  }
  return out;
}

TEST(Matcher, RandomAnswersToRandomSchemasAreValid) {
  const ToyVocabulary vocabulary;
  std::mt19937_64 random(11);
  simdjson::dom::parser parser;
  int ended = 0, invalid_elsewhere = 0, compared_elsewhere = 0;
  std::optional<nlohmann::ordered_json> before;
  for (int round = 0; round < 150; ++round) {
    const nlohmann::ordered_json schema = random_schema(random);
    std::shared_ptr<Compiled> compiled;
    try {
      compiled = vocabulary.compile(Constraint::Kind::kJsonSchema, schema.dump());
    } catch (const Refusal& refusal) {
      ADD_FAILURE() << refusal.what() << "\n" << schema.dump();
      continue;
    }
    for (int i = 0; i < 6; ++i) {
      const Drawn drawn = draw(vocabulary, compiled, random, 400);
      if (!drawn.ended) continue;
      ++ended;
      ASSERT_EQ(parser.parse(drawn.text).error(), simdjson::SUCCESS) << drawn.text << "\n" << schema.dump();
      const nlohmann::json value = nlohmann::json::parse(drawn.text);
      ASSERT_TRUE(is_valid(value, schema, schema)) << drawn.text << "\n" << schema.dump();
      if (!before) continue;
      ++compared_elsewhere;  // the negative control: another schema's answers do not all fit
      invalid_elsewhere += is_valid(value, *before, *before) ? 0 : 1;
    }
    before = schema;
  }
  EXPECT_GT(ended, 600);
  EXPECT_GT(invalid_elsewhere, compared_elsewhere / 2);
}

TEST(Matcher, AnyJsonObject) {
  const ToyVocabulary vocabulary;
  std::mt19937_64 random(12);
  const auto compiled = vocabulary.compile(Constraint::Kind::kJson, "");
  simdjson::dom::parser parser;
  int ended = 0;
  for (int i = 0; i < 300; ++i) {
    const Drawn drawn = draw(vocabulary, compiled, random, 400);
    if (!drawn.ended) continue;
    ++ended;
    simdjson::dom::element root;
    ASSERT_EQ(parser.parse(drawn.text).get(root), simdjson::SUCCESS) << drawn.text;
    EXPECT_TRUE(root.is_object());
  }
  EXPECT_GT(ended, 150);
}

// The mask is what a token by token trial says.
TEST(Matcher, TheMaskIsWhatAdvanceTakes) {
  const ToyVocabulary vocabulary;
  std::mt19937_64 random(13);
  for (int round = 0; round < 40; ++round) {
    const auto compiled = vocabulary.compile(Constraint::Kind::kJsonSchema, random_schema(random).dump());
    Matcher matcher(compiled);
    for (int i = 0; i < 30 && !matcher.ended(); ++i) {
      const std::vector<int32_t> ids = allowed(matcher, vocabulary);
      std::vector<int32_t> taken;
      for (int32_t id = 0; id < vocabulary.end() + 2; ++id) {
        Matcher trial = matcher;
        if (trial.advance(id)) taken.push_back(id);
      }
      ASSERT_EQ(ids, taken);
      ASSERT_TRUE(matcher.advance(ids[random() % ids.size()]));
    }
  }
}

TEST(Matcher, ACopyIsAPlaceToGoBackTo) {
  const ToyVocabulary vocabulary;
  const auto compiled = vocabulary.compile(Constraint::Kind::kRegex, "(ab|cd)*e");
  Matcher matcher(compiled);
  ASSERT_TRUE(matcher.advance('a'));
  const Matcher saved = matcher;
  ASSERT_TRUE(matcher.advance('b'));
  EXPECT_FALSE(matcher.advance('b'));  // and nothing changes
  ASSERT_TRUE(matcher.advance('e'));
  EXPECT_TRUE(matcher.complete());
  matcher = saved;
  EXPECT_FALSE(matcher.complete());
  EXPECT_FALSE(matcher.advance('e'));
  EXPECT_TRUE(matcher.advance('b'));
}

TEST(Matcher, TheEndComesWhereTheTextIsComplete) {
  const ToyVocabulary vocabulary;
  Matcher matcher(vocabulary.compile(Constraint::Kind::kRegex, "ab?"));
  EXPECT_FALSE(matcher.advance(vocabulary.end()));
  ASSERT_TRUE(matcher.advance('a'));
  EXPECT_EQ(allowed(matcher, vocabulary), (std::vector<int32_t>{'b', vocabulary.end()}));
  ASSERT_TRUE(matcher.advance(vocabulary.end()));
  EXPECT_TRUE(matcher.ended());
  EXPECT_EQ(allowed(matcher, vocabulary), std::vector<int32_t>{vocabulary.end()});
  EXPECT_FALSE(matcher.advance('b'));
}

// Nested until no more is allowed: from there it can still be closed.
TEST(Matcher, DepthIsBoundedAndCanBeLeft) {
  const ToyVocabulary vocabulary;
  Matcher matcher(vocabulary.compile(Constraint::Kind::kJson, ""));
  std::string text = "{\"a\":";
  for (const char c : text) ASSERT_TRUE(matcher.advance(c));
  int deep = 0;
  while (deep < 1000 && matcher.advance('[')) ++deep;
  EXPECT_GT(deep, 30);
  EXPECT_LT(deep, kMaxFrames);
  while (!matcher.complete()) {
    ASSERT_TRUE(matcher.advance(']') || matcher.advance('}')) << deep;
  }
}

// Many alternatives that share their beginnings, nested: stacks are shared, so this is no more than a walk.
TEST(Matcher, AmbiguityDoesNotMultiply) {
  const ToyVocabulary vocabulary(0);
  const std::string schema = R"({"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [
      {"type": "null"},
      {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["a"]},
      {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}, "b": {"$ref": "#/$defs/n"}}, "required": ["a"]},
      {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}, "c": {"type": "null"}}, "required": ["a", "c"]}]}}})";
  const auto compiled = vocabulary.compile(Constraint::Kind::kJsonSchema, schema);
  Matcher matcher(compiled);
  int depth = 0;
  for (; depth < 40; ++depth) {
    for (const char c : std::string_view("{\"a\":")) ASSERT_TRUE(matcher.advance(c)) << depth;
  }
  for (const char c : std::string_view("null")) ASSERT_TRUE(matcher.advance(c));
  for (int i = 0; i < depth; ++i) {
    for (const char c : std::string_view(i % 2 == 0 ? ",\"c\":null}" : "}")) ASSERT_TRUE(matcher.advance(c)) << i;
  }
  EXPECT_TRUE(matcher.complete());
}

// What is kept is limited; whoever stands in what was dropped goes on where it was.
TEST(Matcher, GoesOnWhenTheStoreIsDropped) {
  const ToyVocabulary vocabulary;
  Grammar grammar;
  const auto root = grammar.add_rule();
  add_json_schema(grammar, JsonRules(grammar), grammar.start(root),
                  R"({"type": "array", "items": {"type": "string", "minLength": 500, "maxLength": 600}})", "schema",
                  grammar.end(root));
  grammar.finish(root);
  const auto compiled = std::make_shared<Compiled>(std::move(grammar), vocabulary.trie(), /*kept_bytes=*/20'000);
  Matcher old(compiled);
  ASSERT_TRUE(old.advance('[') && old.advance('"'));
  Matcher matcher = old;
  const auto may_come = [&](char c) {
    std::vector<uint64_t> words(vocabulary.words(), ~uint64_t{0});
    matcher.restrict(words);
    return (words[static_cast<size_t>(c) / 64] >> (c % 64) & 1) != 0;
  };
  for (int i = 0; i < 600; ++i) {
    ASSERT_EQ(may_come('"'), i >= 500) << i;
    ASSERT_TRUE(may_come('a'));
    ASSERT_TRUE(matcher.advance('a'));
  }
  EXPECT_FALSE(matcher.advance('a'));
  EXPECT_TRUE(matcher.advance('"') && matcher.advance(']'));
  EXPECT_TRUE(matcher.complete());
  matcher = old;  // of a store that is gone since
  EXPECT_TRUE(may_come('a'));
  EXPECT_FALSE(may_come('"'));
  EXPECT_TRUE(matcher.advance('a'));
}

// In a chat the thinking is free, the response is not, and the markers around it are the format's.
TEST(Matcher, OfAChatOnlyTheResponseIsConstrained) {
  const ToyVocabulary vocabulary;
  const auto write = [&](Matcher& m, std::string_view text) {
    for (const char c : text) {
      if (!m.advance(static_cast<uint8_t>(c))) return false;
    }
    return true;
  };
  for (const auto channel : {text::Channel::kThink, text::Channel::kResponse}) {
    Matcher m(vocabulary.compile(Constraint::Kind::kRegex, "yes|no", channel));
    if (channel == text::Channel::kThink) {
      EXPECT_TRUE(write(m, "any\xFF thing \"yes"));
      EXPECT_FALSE(m.advance(vocabulary.end()));
      EXPECT_FALSE(m.advance(vocabulary.open()));
      EXPECT_TRUE(m.advance(vocabulary.close()) && write(m, "think") && m.advance(vocabulary.separator()));
      EXPECT_FALSE(write(m, "yes"));
      EXPECT_TRUE(m.advance(vocabulary.open()) && write(m, "response") && m.advance(vocabulary.separator()));
    }
    EXPECT_FALSE(m.advance(vocabulary.close()));
    EXPECT_TRUE(write(m, "ye"));
    EXPECT_FALSE(write(m, "x"));
    EXPECT_TRUE(write(m, "s"));
    EXPECT_FALSE(m.complete());
    EXPECT_EQ(allowed(m, vocabulary), std::vector<int32_t>{vocabulary.close()});
    EXPECT_TRUE(m.advance(vocabulary.close()) && write(m, "response") && m.advance(vocabulary.separator()));
    EXPECT_TRUE(m.advance(vocabulary.close()) && write(m, "message") && m.advance(vocabulary.separator()));
    EXPECT_EQ(allowed(m, vocabulary), std::vector<int32_t>{vocabulary.end()});
  }
}

}  // namespace
}  // namespace nibble::constrain
