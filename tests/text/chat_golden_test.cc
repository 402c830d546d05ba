// Prompts whose ids are known: the 1,319 problems and the golden prompts, as the model was trained on them.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sstream>
#include <string>
#include <vector>

#include "testing.h"
#include "text/chat.h"
#include "text/generation_defaults.h"

namespace nibble::text {
namespace {

using Ids = std::vector<int32_t>;
using Json = nlohmann::json;
using testing::tiny;

RenderOptions tiny_options() {
  RenderOptions options;
  options.effort = load_generation_defaults(testing::source_path("models/k3-tiny")).effort;
  return options;
}

Ids prompt_of(const std::string& chat) {
  const ChatRequest request = parse_chat(chat, tiny_options());
  return encode(render(request.messages, request.options).segments, tiny());
}

TEST(ChatGolden, EveryProblemsPromptHasItsIds) {
  std::istringstream lines(testing::read("tests/golden/problems.jsonl"));
  int64_t count = 0, with_effort = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const Json problem = Json::parse(line);
    const Ids want = problem.at("prompt_tokens").get<Ids>();
    const Json message = {{"role", "user"}, {"content", problem.at("question")}};
    ASSERT_EQ(prompt_of(Json::array({message}).dump()), want) << line;
    ASSERT_EQ(prompt_of(Json{{"messages", {message}}}.dump()), want) << line;
    ASSERT_EQ(tiny().encode_with_control(tiny().decode(want)), want) << line;
    // Negative control: the published default effort is another prompt, and must not pass for this one.
    with_effort += encode(render(parse_chat(Json::array({message}).dump(), {}).messages, {}).segments, tiny()) == want;
  }
  EXPECT_EQ(count, 1319);
  EXPECT_EQ(with_effort, 0);
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin);
  if (from == std::string::npos) return {};
  return text.substr(from + begin.size(), text.find(end, from + begin.size()) - from - begin.size());
}

// Each golden prompt, its question and its tools read off the decoded text and rendered anew, gives its ids.
TEST(ChatGolden, GoldenPromptsAreRendered) {
  const Json index = Json::parse(testing::read("tests/golden/index.json"));
  int64_t count = 0, with_tools = 0;
  for (const auto& format : index) {
    for (const Json& entry : format) {
      const Ids tokens = entry.at("tokens").get<Ids>();
      const std::string text = tiny().decode(tokens);
      Json request = {
          {"messages", {{{"role", "user"}, {"content", between(text, "role=\"user\"<|sep|>", "<|close|>")}}}}};
      if (const std::string tools = between(text, "```json\n", "\n```"); !tools.empty()) {
        request["tools"] = Json::parse(tools);
        ++with_tools;
      }
      EXPECT_EQ(prompt_of(request.dump()), tokens) << entry.at("name");
      EXPECT_EQ(tiny().encode_with_control(text), tokens) << entry.at("name");
      ++count;
    }
  }
  EXPECT_EQ(count, 16);
  EXPECT_EQ(with_tools, 4);
}

}  // namespace
}  // namespace nibble::text
