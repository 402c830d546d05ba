// The parser of answers: well-formed ones by round trip, malformed ones by the table, all of them cut anywhere.
#include "text/chat_parser.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <random>
#include <string>
#include <vector>

#include "testing.h"
#include "text/json_text.h"
#include "text/utf8.h"

namespace nibble::text {
namespace {

using Ids = std::vector<int32_t>;
using Json = nlohmann::ordered_json;
using testing::tiny;

struct Read {
  std::string reasoning, content;
  std::vector<std::pair<std::string, std::string>> calls;
  bool operator==(const Read&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Read& read) {
  out << "reasoning " << json_quoted(read.reasoning) << " content " << json_quoted(read.content);
  for (const auto& [name, arguments] : read.calls) out << " call " << name << " " << arguments;
  return out;
}

Read read_of(const ChatAnswer& answer) {
  Read read{answer.reasoning, answer.content, {}};
  for (const auto& call : answer.calls) read.calls.emplace_back(call.name, call.arguments);
  return read;
}

Read parse(const Ids& ids, Channel channel) { return read_of(parse_answer(ids, tiny(), channel)); }

// Markers by their names; everything else is text.
Ids written(const std::string& xtml) { return tiny().encode_with_control(xtml); }

Read think(const std::string& xtml) { return parse(written(xtml), Channel::kThink); }
Read response(const std::string& xtml) { return parse(written(xtml), Channel::kResponse); }

const std::string kEndThink = "<|close|>think<|sep|>";
const std::string kResponse = "<|open|>response<|sep|>";
const std::string kEndResponse = "<|close|>response<|sep|>";
const std::string kTools = "<|open|>tools<|sep|>";
const std::string kEndTools = "<|close|>tools<|sep|>";
const std::string kEndCall = "<|close|>call<|sep|>";
const std::string kEnd = "<|close|>message<|sep|><|end_of_msg|>";

std::string call(const std::string& name) { return "<|open|>call tool=\"" + name + "\" index=\"1\"<|sep|>"; }
std::string begin(const std::string& key, const std::string& type) {
  return "<|open|>argument key=\"" + key + "\" type=\"" + type + "\"<|sep|>";
}
std::string argument(const std::string& key, const std::string& type, const std::string& value) {
  return begin(key, type) + value + "<|close|>argument<|sep|>";
}

TEST(ChatParser, WellFormed) {
  EXPECT_EQ(think(" so\n" + kEndThink + kResponse + " yo " + kEndResponse + kEnd), (Read{" so\n", " yo ", {}}));
  EXPECT_EQ(response("yo" + kEndResponse + kEnd), (Read{"", "yo", {}}));
  EXPECT_EQ(think("need weather" + kEndThink + kResponse + kEndResponse + kTools + call("get_weather") +
                  argument("city", "string", "SF") + argument("days", "number", "3") + kEndCall + kEndTools + kEnd),
            (Read{"need weather", "", {{"get_weather", "{\"city\": \"SF\", \"days\": 3}"}}}));
}

TEST(ChatParser, ArgumentsOfEveryType) {
  const auto arguments = [](const std::string& elements) {
    return response(kTools + call("f") + elements + kEndCall + kEndTools + kEnd).calls.at(0).second;
  };
  EXPECT_EQ(arguments(""), "{}");
  EXPECT_EQ(arguments(argument("s", "string", "a\n\t\x01\"\\ \u4E2D")), R"({"s": "a\n\t\u0001\"\\ )"
                                                                        "\u4E2D\"}");
  EXPECT_EQ(arguments(argument("s", "string", "")), R"({"s": ""})");
  EXPECT_EQ(arguments(argument("o", "object", "{ \"a\": [1, 2]}")), R"({"o": { "a": [1, 2]}})");
  EXPECT_EQ(
      arguments(argument("n", "number", "1e2") + argument("b", "boolean", "true") + argument("z", "null", "null")),
      R"({"n": 1e2, "b": true, "z": null})");
  EXPECT_EQ(arguments(argument("n", "number", "about 3")), R"({"n": "about 3"})");
  EXPECT_EQ(arguments(argument("n", "number", "")), R"({"n": ""})");
  EXPECT_EQ(arguments("<|open|>argument key=\"n\"<|sep|>3<|close|>argument<|sep|>"), R"({"n": 3})");
  EXPECT_EQ(arguments(argument("a", "number", "1") + argument("a", "number", "2") + argument("b", "number", "3")),
            R"({"a": 1, "b": 3})");
  EXPECT_EQ(arguments("<|open|>argument type=\"string\"<|sep|>lost<|close|>argument<|sep|>"), "{}");
  EXPECT_EQ(arguments(argument("a &quot;b&quot; &amp;quot;", "string", "x")), R"({"a \"b\" &quot;": "x"})");
  EXPECT_EQ(arguments("<|open|>json type=\"object\"<|sep|>{\"a\": <|close|>json<|sep|>"), "{\"a\": ");
  EXPECT_EQ(arguments("<|open|>json type=\"object\"<|sep|>[1]<|close|>json<|sep|>" + argument("a", "number", "1")),
            "[1]");
  EXPECT_EQ(arguments("<|open|>json type=\"object\"<|sep|><|close|>json<|sep|>"), "{}");
  EXPECT_EQ(arguments(argument("a", "number", "1") + "<|open|>json<|sep|>{}<|close|>json<|sep|>"), R"({"a": 1})");
}

struct Case {
  const char* what;
  Channel channel;
  std::string xtml;
  Read want;
};

std::vector<Case> malformed() {
  const std::string f = call("f") + argument("a", "number", "1") + kEndCall;
  const std::string marker = "<|open|>response<|sep|>";
  return {
      {"think not closed before response",
       Channel::kThink,
       "so" + kResponse + "yo" + kEndResponse + kEnd,
       {"so", "yo", {}}},
      {"think not closed before tools",
       Channel::kThink,
       "so" + kTools + f + kEndTools + kEnd,
       {"so", "", {{"f", "{\"a\": 1}"}}}},
      {"no marker, think", Channel::kThink, "just text", {"just text", "", {}}},
      {"no marker, response", Channel::kResponse, "just text", {"", "just text", {}}},
      {"response not closed", Channel::kThink, "so" + kEndThink + kResponse + "yo" + kEnd, {"so", "yo", {}}},
      {"message closed inside think", Channel::kThink, "so" + kEnd, {"so", "", {}}},
      {"think opened again",
       Channel::kThink,
       "<|open|>think<|sep|>so" + kEndThink + kResponse + "yo" + kEnd,
       {"so", "yo", {}}},
      {"response missing", Channel::kThink, "so" + kEndThink + "\n yo " + kEndResponse + kEnd, {"so", "\n yo ", {}}},
      {"blank between elements",
       Channel::kThink,
       "so" + kEndThink + "\n\n" + kResponse + "yo" + kEndResponse + " \n" + kEnd,
       {"so", "yo", {}}},
      {"tools before response",
       Channel::kThink,
       "so" + kEndThink + kTools + f + kEndTools + kResponse + "yo" + kEndResponse + kEnd,
       {"so", "yo", {{"f", "{\"a\": 1}"}}}},
      {"two responses",
       Channel::kResponse,
       "yo" + kEndResponse + kTools + f + kEndTools + kResponse + " ho" + kEndResponse + kEnd,
       {"", "yo ho", {{"f", "{\"a\": 1}"}}}},
      {"cut inside a string",
       Channel::kResponse,
       kTools + call("f") + argument("a", "number", "1") + begin("b", "string") + "par",
       {"", "", {{"f", "{\"a\": 1, \"b\": \"par"}}}},
      {"cut inside a number",
       Channel::kResponse,
       kTools + call("f") + begin("b", "number") + "1",
       {"", "", {{"f", "{\"b\": 1"}}}},
      {"cut after an argument",
       Channel::kResponse,
       kTools + call("f") + argument("a", "number", "1"),
       {"", "", {{"f", "{\"a\": 1}"}}}},
      {"cut in an argument's header",
       Channel::kResponse,
       kTools + call("f") + argument("a", "number", "1") + "<|open|>argument key=",
       {"", "", {{"f", "{\"a\": 1"}}}},
      {"cut in the call's end",
       Channel::kResponse,
       kTools + call("f") + argument("a", "number", "1") + "<|close|>call",
       {"", "", {{"f", "{\"a\": 1}"}}}},
      {"cut before any argument", Channel::kResponse, kTools + call("f"), {"", "", {{"f", ""}}}},
      {"message ends inside an argument",
       Channel::kResponse,
       kTools + call("f") + begin("b", "string") + "par<|end_of_msg|>",
       {"", "", {{"f", "{\"b\": \"par"}}}},
      {"message ends inside a call",
       Channel::kResponse,
       kTools + call("f") + argument("a", "number", "1") + "<|end_of_msg|>",
       {"", "", {{"f", "{\"a\": 1}"}}}},
      {"call not closed before the next",
       Channel::kResponse,
       kTools + call("f") + begin("b", "string") + "x" + call("g") + kEndCall + kEndTools,
       {"", "", {{"f", "{\"b\": \"x\"}"}, {"g", "{}"}}}},
      {"argument not closed before the next",
       Channel::kResponse,
       kTools + call("f") + begin("b", "string") + "x" + argument("a", "number", "1") + kEndCall,
       {"", "", {{"f", "{\"b\": \"x\", \"a\": 1}"}}}},
      {"call without a name",
       Channel::kResponse,
       kTools + "<|open|>call index=\"1\"<|sep|>" + argument("a", "number", "1") + kEndCall + f + kEndTools,
       {"", "", {{"f", "{\"a\": 1}"}}}},
      {"call with an empty name",
       Channel::kResponse,
       kTools + call("") + argument("a", "number", "1") + kEndCall + kEndTools,
       {}},
      {"call outside tools", Channel::kResponse, "yo" + f + kEnd, {"", "yo", {{"f", "{\"a\": 1}"}}}},
      {"argument outside a call",
       Channel::kResponse,
       "yo " + begin("a", "string") + "text" + kEndResponse,
       {"", "yo text", {}}},
      {"text inside tools and call",
       Channel::kResponse,
       kTools + "\nstray\n" + call("f") + "stray" + argument("a", "number", "1") + " " + kEndCall + kEndTools,
       {"", "", {{"f", "{\"a\": 1}"}}}},
      {"early end", Channel::kThink, "so<|end_of_msg|>ignored" + kResponse + "ignored", {"so", "", {}}},
      {"[EOS] ends", Channel::kResponse, "yo[EOS]ignored", {"", "yo", {}}},
      {"[PAD] run ends", Channel::kResponse, "yo[PAD][PAD][PAD]", {"", "yo", {}}},
      {"reserved ids give nothing", Channel::kResponse, "a<|reserved_token_1800|>b<|media_pad|>c", {"", "abc", {}}},
      {"stray sep", Channel::kResponse, "a<|sep|>b", {"", "ab", {}}},
      {"unknown element", Channel::kResponse, "a<|open|>oops x=\"1\"<|sep|>b<|close|>oops<|sep|>c", {"", "abc", {}}},
      {"close of what is not open",
       Channel::kResponse,
       "a" + kEndThink + "b" + kEndCall + "c" + kEndTools + "d",
       {"", "abcd", {}}},
      {"open inside a header", Channel::kResponse, "a<|open|>hello " + kEndResponse + kEnd, {"", "ahello ", {}}},
      {"header cut by the end", Channel::kResponse, "a<|close|>resp", {"", "a", {}}},
      {"blanks around a tag",
       Channel::kThink,
       "so<|close|> think <|sep|><|open|> response <|sep|>yo<|close|>\nresponse<|sep|>",
       {"so", "yo", {}}},
      {"after the message",
       Channel::kResponse,
       "yo" + kEndResponse + "<|close|>message<|sep|>ignored" + marker + "ignored",
       {"", "yo", {}}},
      {"whole message from outside",
       Channel::kNone,
       "<|open|>message role=\"assistant\"<|sep|><|open|>think<|sep|>so" + kEndThink + kResponse + "yo" + kEnd,
       {"so", "yo", {}}},
  };
}

TEST(ChatParser, MalformedOutputIsReadAsTheTableSays) {
  for (const Case& c : malformed()) EXPECT_EQ(parse(written(c.xtml), c.channel), c.want) << c.what;
}

TEST(ChatParser, AHeaderThatNeverEndsIsText) {
  const std::string text(5000, 'x');
  EXPECT_EQ(response("a<|open|>" + text + "b"), (Read{"", "a" + text + "b", {}}));
  EXPECT_EQ(response("a<|open|>" + text + "<|sep|>b" + kEndResponse), (Read{"", "a" + text + "b", {}}));
}

// A marker that is only spelled, by ordinary tokens, is text.
TEST(ChatParser, SpelledMarkersAreText) {
  const std::string spelled = kEndThink + kResponse + "<|end_of_msg|>[EOS]";
  EXPECT_EQ(parse(tiny().encode(spelled), Channel::kThink), (Read{spelled, "", {}}));
  EXPECT_EQ(parse(tiny().encode("Use <|open|> and <|sep|"
                                "> to"),
                  Channel::kResponse)
                .content,
            "Use <|open|> and <|sep|> to");
}

// Thinking on and off, by the channel the prompt left: the right field in both modes, streamed or whole.
TEST(ChatParser, TheChannelComesFromThePrompt) {
  for (const bool thinking : {true, false}) {
    RenderOptions options;
    options.thinking = thinking;
    Message hi;
    hi.content = {"hi"};
    const Channel channel = render({hi}, options).channel;
    const Read want = thinking ? Read{"42", "", {}} : Read{"", "42", {}};
    EXPECT_EQ(parse(written("42"), channel), want);
  }
}

// One id at a time: deltas are whole characters, joined they are the total, and the parser says where it is.
TEST(ChatParser, DeltasAreWholeCharactersAndAddUp) {
  for (const Case& c : malformed()) {
    ChatParser parser(tiny(), c.channel);
    std::vector<ChatEvent> events;
    ChatAnswer streamed;
    for (const int32_t id : written(c.xtml)) {
      events.clear();
      parser.push(id, events);
      for (const ChatEvent& event : events) {
        EXPECT_EQ(event.text.empty(), event.kind == ChatEvent::Kind::kCallEnd) << c.what;
        EXPECT_EQ(valid_utf8_prefix(event.text), static_cast<int64_t>(event.text.size())) << c.what;
      }
      streamed.add(events);
    }
    events.clear();
    parser.finish(events);
    streamed.add(events);
    if (parser.lacks_only_a_brace()) streamed.calls.back().arguments += "}";
    EXPECT_EQ(read_of(streamed), c.want) << c.what;
  }
}

TEST(ChatParser, StringArgumentsAreStreamedAsTheyCome) {
  ChatParser parser(tiny(), Channel::kResponse);
  std::vector<ChatEvent> events;
  parser.push(written(kTools + call("f") + begin("b", "string")), events);
  const size_t before = events.size();
  for (const int32_t id : written("a long text")) parser.push(id, events);
  EXPECT_GT(events.size(), before + 3);
  EXPECT_TRUE(parser.in_call());
  EXPECT_EQ(parser.calls(), 1);
}

TEST(ChatParser, FinishReasonsAreOpenAis) {
  EXPECT_STREQ(finish_reason(StopCause::kStopId, 0), "stop");
  EXPECT_STREQ(finish_reason(StopCause::kStopId, 2), "tool_calls");
  EXPECT_STREQ(finish_reason(StopCause::kStopString, 2), "stop");
  EXPECT_STREQ(finish_reason(StopCause::kMaxTokens, 2), "length");
}

TEST(ChatParser, TheLastThinkMarkerDecidesReasoning) {
  ChatParser parser(tiny(), Channel::kThink);
  std::vector<ChatEvent> events;
  EXPECT_TRUE(parser.in_reasoning());
  parser.push(written("so" + kEndThink), events);
  EXPECT_FALSE(parser.in_reasoning());
  parser.push(written("<|open|>think<|sep|>more"), events);
  EXPECT_TRUE(parser.in_reasoning());
}

std::string random_value(std::mt19937_64& random) {
  return testing::random_text(random, static_cast<int64_t>(random() % 8));
}

// What the renderer writes as history, the parser reads back as the same message: any text, any keys, any values.
TEST(ChatParser, ReadsBackWhatTheRendererWrites) {
  std::mt19937_64 random(10);
  for (int i = 0; i < 2000; ++i) {
    Message m;
    m.role = Role::kAssistant;
    m.reasoning = "r" + random_value(random);
    m.content = {random_value(random)};
    Read want{m.reasoning, m.content[0], {}};
    for (uint64_t n = random() % 3; n > 0; --n) {
      Json arguments = Json::object();
      for (uint64_t k = random() % 4; k > 0; --k) {
        const std::string key = random_value(random);
        switch (random() % 4) {
          case 0: arguments[key] = static_cast<int>(random() % 1000); break;
          case 1: arguments[key] = {1, "x" + random_value(random), nullptr}; break;
          default: arguments[key] = random_value(random);
        }
      }
      m.tool_calls.push_back({"id", "f" + random_value(random), arguments.dump()});
      want.calls.emplace_back(m.tool_calls.back().name, arguments.dump());
    }
    RenderOptions options;
    options.effort = std::nullopt;
    options.add_generation_prompt = false;
    const Ids ids = encode(render({m}, options).segments, tiny());
    Read read = parse(ids, Channel::kNone);
    for (auto& [name, arguments] : read.calls) arguments = Json::parse(arguments).dump();
    ASSERT_EQ(read, want);
  }
}

// Random ids, most of them markers and tags: nothing throws, cuts change nothing, text is UTF-8, ended calls are JSON.
TEST(ChatParser, RandomIds) {
  std::mt19937_64 random(11);
  std::vector<Ids> parts;
  for (const std::string tag :
       {"think", "response", "tools", "call tool=\"f\"", "call", "argument key=\"a\" type=\"string\"",
        "argument key=\"b\" type=\"number\"", "argument type=\"string\"", "json", "message"}) {
    parts.push_back(written("<|open|>" + tag + "<|sep|>"));
    parts.push_back(written("<|close|>" + tag.substr(0, tag.find(' ')) + "<|sep|>"));
  }
  int64_t calls = 0;
  for (int i = 0; i < 20000; ++i) {
    Ids ids;
    for (uint64_t n = random() % 48; n > 0; --n) {
      const Ids& part = parts[random() % parts.size()];
      switch (random() % 8) {
        case 0: ids.push_back(static_cast<int32_t>(random() % 2060) - 6); break;
        case 1: ids.push_back(static_cast<int32_t>(random() % 256)); break;
        default: ids.insert(ids.end(), part.begin(), part.end());
      }
    }
    const auto channel = static_cast<Channel>(random() % 3);
    std::vector<ChatEvent> whole, single, one;
    ChatParser at_once(tiny(), channel), by_one(tiny(), channel);
    at_once.push(ids, whole);
    at_once.finish(whole);
    for (const int32_t id : ids) {
      one.clear();
      by_one.push(id, one);
      single.insert(single.end(), one.begin(), one.end());
    }
    by_one.finish(single);
    ChatAnswer a, b;
    a.add(whole);
    b.add(single);
    ASSERT_EQ(read_of(a), read_of(b));
    for (const ChatEvent& event : whole) {
      ASSERT_EQ(valid_utf8_prefix(event.text), static_cast<int64_t>(event.text.size()));
      if (event.kind != ChatEvent::Kind::kCallEnd) continue;
      const std::string& arguments = a.calls.at(event.call).arguments;
      if (arguments.starts_with("{\"a\"") || arguments.starts_with("{\"b\"")) {
        ASSERT_TRUE(is_json(arguments)) << arguments;
        ++calls;
      }
    }
  }
  EXPECT_GT(calls, 1000);
}

}  // namespace
}  // namespace nibble::text
