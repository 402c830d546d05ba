// The JSON of clients: every switch by its precedence, every refusal by its field.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "testing.h"
#include "text/chat.h"

namespace nibble::text {
namespace {

RenderOptions options_of(const std::string& fields, const RenderOptions& defaults = {}) {
  const std::string comma = fields.empty() ? "" : ",";
  return parse_chat(
             R"({"model":"any","stream":true,"messages":[{"role":"user","content":"hi"}])" + comma + fields + "}",
             defaults)
      .options;
}

std::string refused(const std::string& json) {
  return testing::refusal([&] { parse_chat(json, {}); });
}

std::string refused_with(const std::string& fields) {
  return testing::refusal([&] { options_of(fields); });
}

TEST(ChatRequest, ThinkingSwitchesByPrecedence) {
  struct Case {
    const char* fields;
    bool thinking;
    std::optional<Effort> effort;
  };
  const std::vector<Case> cases = {
      {R"()", true, Effort::kMax},
      {R"("thinking":{"type":"enabled"})", true, Effort::kMax},
      {R"("thinking":{"type":"disabled","effort":"low"})", false, Effort::kMax},
      {R"("thinking":{"effort":"low"})", true, Effort::kLow},
      {R"("thinking":{"effort":"low"},"reasoning_effort":"none")", true, Effort::kLow},
      {R"("thinking":{"effort":null})", true, std::nullopt},
      {R"("thinking":{"type":"enabled"},"reasoning_effort":"none")", true, Effort::kMax},
      {R"("thinking":{"effort":"high"},"reasoning_effort":"low","chat_template_kwargs":{"thinking_effort":"low"})",
       true, Effort::kHigh},
      {R"("reasoning_effort":"low","chat_template_kwargs":{"thinking_effort":"high"})", true, Effort::kHigh},
      {R"("chat_template_kwargs":{"thinking_effort":null})", true, std::nullopt},
      {R"("chat_template_kwargs":{"thinking":false})", false, Effort::kMax},
      {R"("chat_template_kwargs":{"enable_thinking":false})", false, Effort::kMax},
      {R"("chat_template_kwargs":{"thinking":true,"enable_thinking":false})", true, Effort::kMax},
      {R"("thinking":{"type":"disabled"},"chat_template_kwargs":{"thinking":true})", false, Effort::kMax},
      {R"("reasoning_effort":"none")", false, Effort::kMax},
      {R"("reasoning_effort":"off")", false, Effort::kMax},
      {R"("reasoning_effort":"disabled")", false, Effort::kMax},
      {R"("reasoning_effort":null)", true, Effort::kMax},
      {R"("reasoning_effort":"minimal")", true, Effort::kLow},
      {R"("reasoning_effort":"low")", true, Effort::kLow},
      {R"("reasoning_effort":"medium")", true, Effort::kHigh},
      {R"("reasoning_effort":"high")", true, Effort::kHigh},
      {R"("reasoning_effort":"xhigh")", true, Effort::kMax},
      {R"("reasoning_effort":"max")", true, Effort::kMax},
      {R"("reasoning":{"effort":"low"})", true, Effort::kLow},
      {R"("reasoning":{"effort":"none"})", false, Effort::kMax},
      {R"("reasoning_effort":"high","reasoning":{"effort":"low"})", true, Effort::kHigh},
      {R"("thinking":{"type":"disabled"},"reasoning_effort":"absurd")", false, Effort::kMax},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(options_of(c.fields).thinking, c.thinking) << c.fields;
    EXPECT_EQ(options_of(c.fields).effort, c.effort) << c.fields;
  }
  RenderOptions tiny;
  tiny.effort = std::nullopt;  // the bundled model's own default stands until a request says otherwise
  EXPECT_EQ(options_of("", tiny).effort, std::nullopt);
  EXPECT_EQ(options_of(R"("reasoning_effort":"low")", tiny).effort, Effort::kLow);
}

TEST(ChatRequest, RefusesByField) {
  EXPECT_EQ(refused_with(R"("thinking":{"effort":"medium"})"),
            "refused: thinking.effort: \"medium\"; rule: the model knows the efforts low, high and max; "
            "try: send \"low\", \"high\", \"max\" or null");
  EXPECT_EQ(refused_with(R"("reasoning_effort":"huge")"),
            "refused: reasoning_effort: \"huge\"; "
            "rule: efforts are none, minimal, low, medium, high, xhigh and max; try: send one of these");
  struct Case {
    const char* json;
    const char* what;
    const char* seen;
  };
  const std::vector<Case> cases = {
      {"", "the chat's JSON", "not JSON at byte 1"},
      {"{\"messages\": [", "the chat's JSON", "not JSON at byte"},
      {"[{\"role\":\"user\",\"content\":\"\xFF\"}]", "the chat's JSON", "not JSON at byte"},
      {"[{\"role\":\"user\",\"content\":\"\\ud800\"}]", "the chat's JSON", "not JSON at byte"},
      {"[1e999]", "the chat's JSON", "a number beyond the range of a double"},
      {"[]", "messages", "an empty list"},
      {"{}", "messages", "not a list"},
      {"3", "messages", "not a list"},
      {R"([3])", "messages[0]", "3"},
      {R"([{"content":"x"}])", "messages[0].role", "\"\""},
      {R"([{"role":"robot"}])", "messages[0].role", "\"robot\""},
      {R"([{"role":"user","content":3}])", "messages[0].content", "3"},
      {R"([{"role":"user","name":3}])", "messages[0].name", "3"},
      {R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])", "messages[0].content[0]",
       "a content part of type \"image_url\""},
      {R"([{"role":"user","content":[{"type":"video"}]}])", "messages[0].content[0]",
       "a content part of type \"video\""},
      {R"([{"role":"assistant","tool_calls":{}}])", "messages[0].tool_calls", "{}"},
      {R"([{"role":"assistant","tool_calls":[{}]}])", "messages[0].tool_calls[0]", "no function object"},
      {R"([{"role":"system","tools":[{}]}])", "messages[0].tools[0]", "no function with a name"},
  };
  for (const Case& c : cases) {
    const std::string text = refused(c.json);
    EXPECT_EQ(text.rfind("refused: " + std::string(c.what) + ": " + c.seen, 0), 0u) << c.json << "\n" << text;
  }
  const std::vector<Case> fields = {
      {R"("thinking":true)", "thinking", "true"},
      {R"("thinking":{"type":"maybe"})", "thinking.type", "\"maybe\""},
      {R"("chat_template_kwargs":{"thinking":"yes"})", "chat_template_kwargs.thinking", "\"yes\""},
      {R"("chat_template_kwargs":{"thinking_effort":"none"})", "chat_template_kwargs.thinking_effort", "\"none\""},
      {R"("reasoning":{"effort":7})", "reasoning.effort", "7"},
      {R"("tools":{})", "tools", "{}"},
      {R"("tools":[{"type":"function","function":{"name":""}}])", "tools[0]", "no function with a name"},
      {R"("tools":[{"type":"builtin_function","function":{"name":"$web_search"}}])", "tools[0]",
       "type \"builtin_function\""},
      {R"("tool_choice":"sometimes")", "tool_choice", "\"sometimes\""},
      {R"("tool_choice":{"function":{}})", "tool_choice", "{\"function\":{}}"},
      {R"("response_format":{"type":"xml"})", "response_format", "{\"type\":\"xml\"}"},
      {R"("continue_final_message":1)", "continue_final_message", "1"},
      {R"("continue_final_message":true,"add_generation_prompt":true)", "continue_final_message true",
       "add_generation_prompt true"},
  };
  for (const Case& c : fields) {
    const std::string text = refused_with(c.json);
    EXPECT_EQ(text.rfind("refused: " + std::string(c.what) + ": " + c.seen, 0), 0u) << c.json << "\n" << text;
  }
}

TEST(ChatRequest, RefusalsShowAnExcerptOnly) {
  std::string text = "[{\"role\":\"user\",\"content\":{\"k\":\"";
  for (int i = 0; i < 5000; ++i) text += "\u4e2d";
  const std::string shown = refused(text + "\"}}]");
  EXPECT_LT(shown.size(), 400u);
  EXPECT_EQ(valid_utf8_prefix(shown), static_cast<int64_t>(shown.size()));
}

TEST(ChatRequest, NestingIsLimited) {
  const auto nested = [](int depth) {
    return R"({"messages":[{"role":"user","content":"hi"}],"x":)" + std::string(depth, '[') + std::string(depth, ']') +
           "}";
  };
  EXPECT_EQ(refused(nested(127)), "not refused");
  EXPECT_NE(refused(nested(128)).find("values nested deeper than 128"), std::string::npos);
  EXPECT_NE(refused(std::string(1000000, '[')).find("values nested deeper than 128"), std::string::npos);
  EXPECT_EQ(
      refused(R"([{"role":"user","content":")" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\"}]"),
      "not refused");
}

}  // namespace
}  // namespace nibble::text
