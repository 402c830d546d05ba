// Tool calls: what may be written under a constraint, read by the chat's own parser, fits the tools that were declared.
#include "constrain/tool_calls.h"

#include <gtest/gtest.h>

#include <bit>

#include "base/error.h"
#include "constrain/chat_format.h"
#include "constrain/compiler.h"
#include "constrain/random_schema.h"
#include "constrain/validator.h"
#include "text/chat_parser.h"
#include "text/tokenizer.h"

namespace nibble::constrain {
namespace {

using Calls = CallConstraint;
using text::Channel;
using Schema = nlohmann::ordered_json;

const text::Tokenizer& tokenizer() {
  static const text::Tokenizer only = text::Tokenizer::load(NIBBLE_SOURCE_DIR "/models/k3-tiny", 2048);
  return only;
}
const std::shared_ptr<const TokenTrie>& trie() {
  static const auto only = make_trie(tokenizer(), {tokenizer().control().end_of_message});
  return only;
}
std::shared_ptr<Compiled> compiled(const Constraint& constraint, Channel channel = Channel::kResponse) {
  return compile(constraint, channel, trie());
}
bool fits(const std::shared_ptr<Compiled>& compiled, const std::string& answer) {
  Matcher matcher(compiled);
  for (const int32_t id : tokenizer().encode_with_control(answer)) {
    if (!matcher.advance(id)) return false;
  }
  return matcher.complete();
}

std::string argument(const std::string& key, const std::string& type, const std::string& value) {
  return "<|open|>argument key=\"" + key + "\" type=\"" + type + "\"<|sep|>" + value + "<|close|>argument<|sep|>";
}
std::string call(const std::string& name, const std::string& arguments, const std::string& index = "1") {
  return "<|open|>call tool=\"" + name + "\" index=\"" + index + "\"<|sep|>" + arguments + "<|close|>call<|sep|>";
}
constexpr const char* kEnd = "<|close|>message<|sep|>";
std::string answer(const std::string& calls, const std::string& response = "") {
  return response + "<|close|>response<|sep|><|open|>tools<|sep|>" + calls + "<|close|>tools<|sep|>" + kEnd;
}

const Calls::Tool kBook{
    "book",
    R"({"type": "object", "properties": {"nights": {"type": "integer", "minimum": 1}, "a\"&b": {"type": "string"},
                "at": {"type": ["string", "null"], "maxLength": 3}, "of": {"enum": ["x", 2, null]}}, "required": ["nights"]})"};
const Calls::Tool kAny{"any", ""};

TEST(ToolCalls, ArgumentsOfASchema) {
  const auto c = compiled({.calls = Calls{.tools = {kBook, kAny}, .required = true}});
  const std::string nights = argument("nights", "number", "3");
  for (const std::string& good : {nights, nights + argument("a&quot;&amp;b", "string", "any \"thing\" {\n"),
                                  argument("at", "null", "null") + nights,
                                  argument("of", "string", "x") + nights + argument("at", "string", "abc"),
                                  argument("of", "number", "2") + nights}) {
    EXPECT_TRUE(fits(c, answer(call("book", good)))) << good;
  }
  for (const std::string& bad : {std::string(), argument("nights", "number", "0"), argument("nights", "number", "3.5"),
                                 argument("nights", "string", "3"), nights + nights,
                                 nights + argument("other", "string", "x"), nights + argument("at", "string", "abcd"),
                                 nights + argument("of", "string", "2"), nights + argument("of", "number", "x"),
                                 nights + "text", std::string("<|open|>json<|sep|>{}<|close|>json<|sep|>")}) {
    EXPECT_FALSE(fits(c, answer(call("book", bad)))) << bad;
  }
  for (const std::string& free : {std::string(), argument("", "object", R"({"a": [1]})"), argument("k", "string", ""),
                                  argument("a&amp;b", "boolean", "true") + argument("n", "array", "[]")}) {
    EXPECT_TRUE(fits(c, answer(call("any", free)))) << free;
  }
  EXPECT_FALSE(fits(c, answer(call("any", argument("k", "object", "[1]")))));
  EXPECT_FALSE(fits(c, answer(call("none", ""))));
}

TEST(ToolCalls, TheFrameIsTheFormats) {
  const std::string one = call("any", ""), two = one + call("any", "", "27");
  const Calls calls{.tools = {kAny}};
  Calls required = calls, single = calls;
  required.required = true;
  single.parallel = false;
  const auto free = compiled({.calls = calls}), must = compiled({.calls = required}),
             once = compiled({.calls = single}), never = compiled({.calls = Calls{}});
  const std::string plain = std::string("hello<|close|>response<|sep|>") + kEnd;
  EXPECT_TRUE(fits(free, plain) && fits(once, plain) && fits(never, plain));
  EXPECT_FALSE(fits(must, plain));
  EXPECT_TRUE(fits(free, answer(one, "hello")) && fits(must, answer(one)) && fits(once, answer(one)));
  EXPECT_FALSE(fits(never, answer(one)));
  EXPECT_TRUE(fits(free, answer(two)) && fits(must, answer(two)));
  EXPECT_FALSE(fits(once, answer(two)));
  EXPECT_FALSE(fits(free, answer("")));
  EXPECT_FALSE(fits(free, answer(call("any", "", "0"))));

  // Beside a response that is constrained, calls come in its place.
  for (const bool is_required : {false, true}) {
    Constraint both{.kind = Constraint::Kind::kRegex, .text = "yes|no", .calls = is_required ? required : calls};
    const auto c = compiled(both);
    EXPECT_EQ(fits(c, std::string("yes<|close|>response<|sep|>") + kEnd), !is_required);
    EXPECT_TRUE(fits(c, answer(one)));
    EXPECT_FALSE(fits(c, answer(one, "yes")));
    EXPECT_FALSE(fits(c, answer(one, "hello")));
    const auto thinking = compiled(both, Channel::kThink);
    EXPECT_TRUE(fits(thinking, "hm<|close|>think<|sep|><|open|>response<|sep|>" + answer(one)));
    EXPECT_TRUE(fits(thinking, "hm<|close|>think<|sep|>" + answer(one).substr(24)));  // without a response
    EXPECT_FALSE(fits(thinking, "hm<|close|>think<|sep|><|open|>response<|sep|>" + answer(one, "hm")));
  }
  EXPECT_THROW(compiled({.calls = calls}, Channel::kNone), Refusal);
}

TEST(ToolCalls, ManyArgumentsComeInTheSchemasOrder) {
  Schema schema = {{"type", "object"}, {"properties", Schema::object()}, {"required", {"k7"}}};
  for (int i = 0; i < 8; ++i) schema["properties"]["k" + std::to_string(i)] = {{"type", "boolean"}};
  const auto c = compiled({.calls = Calls{.tools = {{"f", schema.dump()}}, .required = true}});
  const auto of = [](int i) { return argument("k" + std::to_string(i), "boolean", "true"); };
  EXPECT_TRUE(fits(c, answer(call("f", of(0) + of(3) + of(7)))));
  EXPECT_TRUE(fits(c, answer(call("f", of(7)))));
  EXPECT_FALSE(fits(c, answer(call("f", of(7) + of(0)))));
  EXPECT_FALSE(fits(c, answer(call("f", of(0)))));
}

// Random tokens, with a pull to what ends something.
std::vector<int32_t> draw(const std::shared_ptr<Compiled>& compiled, std::mt19937_64& random, int most) {
  Matcher matcher(compiled);
  std::vector<int32_t> out, ids, closing;
  std::vector<uint64_t> words(trie()->words());
  for (int i = 0; i < most && !matcher.ended(); ++i) {
    std::fill(words.begin(), words.end(), ~uint64_t{0});
    matcher.restrict(words);
    ids.clear();
    closing.clear();
    for (size_t w = 0; w < words.size(); ++w) {
      for (uint64_t bits = words[w]; bits != 0; bits &= bits - 1) {
        ids.push_back(static_cast<int32_t>(w * 64) + std::countr_zero(bits));
        const int32_t id = ids.back();
        if (tokenizer().is_control(id) ||
            std::string_view("\"}],1").find(tokenizer().bytes(id)) != std::string_view::npos)
          closing.push_back(id);
      }
    }
    EXPECT_FALSE(ids.empty()) << "stuck behind " << tokenizer().decode(out);
    if (ids.empty()) return out;
    const auto& from = !closing.empty() && random() % 2 == 0 ? closing : ids;
    out.push_back(from[random() % from.size()]);
    EXPECT_TRUE(matcher.advance(out.back()));
  }
  return out;
}

TEST(ToolCalls, RandomCallsFitTheirRandomSchemas) {
  std::mt19937_64 random(21);
  int calls = 0, elsewhere = 0, invalid_elsewhere = 0;
  Schema before;
  for (int round = 0; round < 40; ++round) {
    Schema parameters = {{"type", "object"}};
    for (const char* key : {"first", "sec\"ond", "th&rd"}) {
      Schema part = random_schema(random);
      parameters["$defs"] = part["$defs"];
      part.erase("$defs");
      parameters["properties"][key] = part;
      if (random() % 2 == 0) parameters["required"].push_back(key);
    }
    if (random() % 3 == 0) parameters["additionalProperties"] = {{"type", "integer"}};
    const Channel channel = random() % 2 == 0 ? Channel::kThink : Channel::kResponse;
    const auto c = compiled({.calls = Calls{.tools = {{"f", parameters.dump()}, kAny}, .required = true}}, channel);
    for (int i = 0; i < 4; ++i) {
      const std::vector<int32_t> ids = draw(c, random, 600);
      if (ids.back() != tokenizer().control().end_of_message) continue;
      const text::ChatAnswer got = text::parse_answer(ids, tokenizer(), channel);
      ASSERT_FALSE(got.calls.empty()) << tokenizer().decode(ids);
      for (const auto& call : got.calls) {
        const nlohmann::json arguments = nlohmann::json::parse(call.arguments);
        ASSERT_TRUE(arguments.is_object());
        ASSERT_TRUE(call.name == "f" || call.name == "any");
        if (call.name == "any") continue;
        ++calls;
        ASSERT_TRUE(is_valid(arguments, parameters, parameters)) << call.arguments << "\n" << parameters.dump();
        if (before.is_null()) continue;
        ++elsewhere;  // the negative control
        invalid_elsewhere += is_valid(arguments, before, before) ? 0 : 1;
      }
    }
    before = parameters;
  }
  EXPECT_GT(calls, 30);
  EXPECT_GT(invalid_elsewhere, elsewhere / 3);
}

TEST(ToolCalls, WhatAChatAsksFor) {
  const auto of = [](const std::string& more, Constraint response = {}) {
    return constraint_of(text::parse_chat(R"({"messages":[{"role":"user","content":"hi"}],"tools":[
        {"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"z":{},"a":{}}}}},
        {"type":"function","function":{"name":"g"}}])" +
                                              more + "}",
                                          {}),
                         std::move(response));
  };
  EXPECT_TRUE(of("").none());
  EXPECT_TRUE(of(R"(,"tool_choice":"none")").calls->tools.empty());
  const Constraint required = of(R"(,"tool_choice":"required")");
  ASSERT_EQ(required.calls->tools.size(), 2u);
  EXPECT_TRUE(required.calls->required && required.calls->parallel);
  EXPECT_EQ(required.calls->tools[0].parameters,
            R"({"type":"object","properties":{"z":{},"a":{}}})");  // the order as sent
  EXPECT_EQ(required.calls->tools[1].parameters, R"({"type":"object","properties":{}})");
  const Constraint named =
      of(R"(,"tool_choice":{"type":"function","function":{"name":"g"}},"parallel_tool_calls":false)");
  ASSERT_EQ(named.calls->tools.size(), 1u);
  EXPECT_EQ(named.calls->tools[0].name, "g");
  EXPECT_FALSE(named.calls->parallel);
  const Constraint once = of(R"(,"parallel_tool_calls":false)");
  EXPECT_TRUE(!once.calls->required && once.calls->tools[0].parameters.empty());
  const Constraint beside = of(R"(,"response_format":{"type":"json_object"})");
  EXPECT_EQ(beside.kind, Constraint::Kind::kJson);
  EXPECT_EQ(beside.calls->tools.size(), 2u);
  EXPECT_EQ(of("", {.kind = Constraint::Kind::kRegex, .text = "a"}).text, "a");

  const auto strict = [](const char* value, const char* choice) {
    return constraint_of(
        text::parse_chat(std::string(R"({"messages":[{"role":"user","content":"hi"}],"tool_choice":")") + choice +
                             R"(","tools":[{"type":"function","function":{"name":"f","strict":)" + value +
                             R"(,"parameters":{"type":"object"}}}]})",
                         {}));
  };
  EXPECT_EQ(strict("true", "auto").calls->tools[0].parameters, R"({"type":"object"})");
  EXPECT_FALSE(strict("true", "auto").calls->required);
  EXPECT_TRUE(strict("false", "required").calls->tools[0].parameters.empty());
  EXPECT_TRUE(strict("null", "auto").none());
  EXPECT_THROW(strict("1", "auto"), Refusal);
}

TEST(ToolCalls, RefusalsNameTheTool) {
  const auto seen = [](const std::string& parameters) -> std::string {
    try {
      compiled({.calls = Calls{.tools = {{"f", parameters}}, .required = true}});
    } catch (const Refusal& refusal) {
      return refusal.what();
    }
    return "";
  };
  for (const auto& [parameters, part] : std::vector<std::pair<std::string, std::string>>{
           {R"({"type":"object","properties":{"a":{"not":{}}}})", "\"not\" at #/properties/a"},
           {R"({"type":"object","minProperties":1})", "number of arguments"},
           {R"({"enum":[{}]})", "enum or const of all arguments"},
           {"nonsense", "no JSON"},
           {R"({"properties":{")" + std::string(2000, 'k') + R"(":{}}})", "2000 bytes"}}) {
    EXPECT_NE(seen(parameters).find(part), std::string::npos) << seen(parameters);
    EXPECT_NE(seen(parameters).find("parameters of f"), std::string::npos) << seen(parameters);
  }
  EXPECT_NE(seen(R"({"type":"string"})"), "");  // no arguments are a string
  EXPECT_EQ(seen(R"({"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"type":"object"},{"type":"object"}]}}})"), "");
}

}  // namespace
}  // namespace nibble::constrain
