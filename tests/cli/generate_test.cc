#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>

#include "cli/program.h"
#include "text/utf8.h"

namespace nibble::cli {
namespace {

using nlohmann::json;

const Arguments kHello = {"generate", "-m", model(), "--chat", R"([{"role": "user", "content": "hi!"}])",
                          "--temp",   "0"};

Arguments with(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

json generate(const Arguments& arguments) {
  const Ended r = run(with(arguments, {"--json"}));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(r.out.find('\n'), r.out.size() - 1);
  return json::parse(r.out);
}

std::vector<json> lines(const std::string& name, size_t count) {
  std::ifstream file(std::string(NIBBLE_SOURCE_DIR) + "/tests/golden/" + name);
  std::vector<json> out;
  for (std::string line; out.size() < count && std::getline(file, line);) out.push_back(json::parse(line));
  return out;
}

class GenerateAnswers : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

// Prompts as ids and as chats give the reference's greedy answer, stop token included.
TEST_P(GenerateAnswers, AreTheReference) {
  const auto [format, name] = GetParam();
  const auto problems = lines("problems.jsonl", 4), answers = lines("answers-" + std::string(format) + ".jsonl", 4);
  for (size_t i = 0; i < problems.size(); ++i) {
    const auto tokens = answers[i].at("tokens").get<std::vector<int32_t>>();
    const std::string ids = joined(problems[i].at("prompt_tokens").get<std::vector<int32_t>>());
    const std::string chat = json::array({{{"role", "user"}, {"content", problems[i].at("question")}}}).dump();
    for (const Arguments& prompt : {Arguments{"--tokens", ids}, Arguments{"--chat", chat}}) {
      for (const char* precision : {"bf16", "exact"}) {
        const json answer = generate(
            with({"generate", "-m", model(name), "--temp", "0", "-n", "200", "--precision", precision}, prompt));
        EXPECT_EQ(answer.at("tokens").get<std::vector<int32_t>>(), tokens) << i << " " << prompt[0] << " " << precision;
        EXPECT_EQ(answer.at("finish_reason"), "stop");
        const std::string text = answer.at("text");
        EXPECT_EQ(text.substr(text.find("#### ") + 5), problems[i].at("answer").get<std::string>()) << text;
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Formats, GenerateAnswers,
                         ::testing::Values(std::pair("mxfp4", "k3-tiny"), std::pair("nvfp4", "k3-tiny-nvfp4")));

TEST(Generate, StreamIsTheFinalText) {
  const json answer = generate(kHello);
  const Ended stream = run(kHello);
  EXPECT_EQ(stream.out,
            answer.at("reasoning").get<std::string>() + "\n\n" + answer.at("text").get<std::string>() + "\n");
  EXPECT_EQ(stream.err, "");
  EXPECT_GT(stream.reads.size(), 3u);  // as it came, not at the end

  const Arguments completion = {"generate", "-m", model(), "-p", "Rosa has", "--seed", "7", "-n", "60"};
  EXPECT_EQ(run(completion).out, generate(completion).at("text").get<std::string>() + "\n");
}

TEST(Generate, ChatComesInEveryForm) {
  const std::string path = ::testing::TempDir() + "/nibble_chat.json";
  const std::string request = R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "hi!"}]}]})";
  std::ofstream(path) << request;
  const json want = generate(kHello);
  EXPECT_EQ(generate({"generate", "-m", model(), "--chat", "@" + path, "--temp", "0"}), want);
  const Ended from_stdin = run({"generate", "-m", model(), "--chat", "-", "--temp", "0", "--json"}, {.input = request});
  EXPECT_EQ(json::parse(from_stdin.out), want);
}

TEST(Generate, PromptFileLosesOneLineBreak) {
  const Arguments base = {"generate", "-m", model(), "--temp", "0", "-n", "8"};
  const json want = generate(with(base, {"-p", "Rosa has\n"}));
  const Ended r = run(with(base, {"-f", "-", "--json"}), {.input = "Rosa has\n\n"});
  EXPECT_EQ(json::parse(r.out), want);
}

TEST(Generate, NoThinkingAnswersAtOnce) {
  const json answer = generate(with(kHello, {"--no-thinking", "-n", "20"}));
  EXPECT_EQ(answer.at("reasoning"), "");
  EXPECT_NE(answer.at("text"), "");
}

TEST(Generate, EndsForTheReasonItGives) {
  const json whole = generate(kHello);
  const json cut = generate(with(kHello, {"-n", "3"}));
  EXPECT_EQ(cut.at("finish_reason"), "length");
  EXPECT_EQ(cut.at("tokens").size(), 3u);
  EXPECT_EQ(cut.at("text"), "");  // still thinking

  const std::string text = whole.at("text");
  const std::string stop = text.substr(10, 6);
  const json stopped = generate(with(kHello, {"--stop", "not in it", "--stop", stop}));
  EXPECT_EQ(stopped.at("finish_reason"), "stop");
  EXPECT_EQ(stopped.at("text"), text.substr(0, text.find(stop)));
  EXPECT_LT(stopped.at("tokens").size(), whole.at("tokens").size());

  // A stop string in the reasoning is not one of the answer.
  const json thought = generate(with(kHello, {"--stop", "thanks"}));
  EXPECT_EQ(thought, whole);

  const json longer = generate(with(kHello, {"--ignore-eos", "-n", "80"}));
  EXPECT_EQ(longer.at("finish_reason"), "length");
  EXPECT_EQ(longer.at("tokens").size(), 80u);
}

TEST(Generate, ToolCallsAreNamed) {
  const auto prompts = json::parse(std::ifstream(std::string(NIBBLE_SOURCE_DIR) + "/tests/golden/index.json"));
  for (const json& prompt : prompts.at("mxfp4")) {
    if (prompt.at("name") != "tool call") continue;
    // As far as the answer's first token: the golden's prompts are whole conversations.
    auto ids = prompt.at("tokens").get<std::vector<int32_t>>();
    const json answer = generate({"generate", "-m", model(), "--temp", "0", "-n", "120", "--tokens", joined(ids)});
    EXPECT_EQ(answer.at("finish_reason"), "tool_calls");
    ASSERT_EQ(answer.at("tool_calls").size(), 1u);
    EXPECT_TRUE(json::accept(answer.at("tool_calls")[0].at("arguments").get<std::string>()));
    return;
  }
  FAIL() << "no such golden";
}

TEST(Generate, SeedsAndBiasesDoWhatTheySay) {
  const Arguments base = {"generate", "-m", model(), "-p", "Rosa", "-n", "24"};
  EXPECT_EQ(generate(with(base, {"--seed", "1"})), generate(with(base, {"--seed", "1"})));
  EXPECT_NE(generate(with(base, {"--seed", "1"})), generate(with(base, {"--seed", "2"})));
  const json forced = generate(with(base, {"--logit-bias", "65:10000"}));
  EXPECT_EQ(forced.at("text"), std::string(24, 'A'));
  const json banned = generate(
      with(base, {"--temp", "0", "--logit-bias", "65:10000", "--logit-bias", "65:-inf", "--logit-bias", "66:9000"}));
  EXPECT_EQ(banned.at("text"), std::string(24, 'B'));
}

// Two bytes of one character come as two tokens, in any order: what is written is whole characters at every moment.
TEST(Generate, NeverSplitsACharacter) {
  const Arguments split = {"generate",  "-m",     model(), "-p",           "x",         "-n",
                           "200",       "--seed", "3",     "--logit-bias", "195:10000", "--logit-bias",
                           "169:10000", "--temp", "100",   "--top-p",      "1"};
  const Ended r = run(split);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("\xC3\xA9"), std::string::npos);      // whole ones
  EXPECT_NE(r.out.find("\xEF\xBF\xBD"), std::string::npos);  // and leftovers
  ASSERT_GT(r.reads.size(), 1u);
  for (const size_t length : r.reads) {
    EXPECT_EQ(text::valid_utf8_prefix(r.out.substr(0, length)), static_cast<int64_t>(length));
  }
  EXPECT_EQ(r.out, generate(split).at("text").get<std::string>() + "\n");
}

TEST(Generate, AnswersHaveTheFormThatWasAskedFor) {
  const Arguments base = {"generate", "-m", model(), "-p", "Rosa has 3 pens: ", "--seed", "4"};
  const std::string schema =
      R"({"type": "object", "properties": {"pens": {"type": "integer", "maximum": 99}}, "required": ["pens"]})";
  const json inline_answer = generate(with(base, {"--json-schema", schema}));
  EXPECT_EQ(inline_answer.at("finish_reason"), "stop");
  EXPECT_TRUE(json::parse(inline_answer.at("text").get<std::string>()).at("pens").is_number_integer());
  const std::string path = ::testing::TempDir() + "/nibble_schema.json";
  std::ofstream(path) << schema;
  EXPECT_EQ(generate(with(base, {"-j", path})), inline_answer);
  EXPECT_EQ(generate(with(base, {"-j", "@" + path})), inline_answer);
  const json object = generate(with(base, {"--json-object", "--logit-bias", "125:50", "-n", "-1"}));
  EXPECT_TRUE(json::parse(object.at("text").get<std::string>()).is_object());
  const std::string number = generate(with(base, {"--regex", "[0-9]{3}-[0-9]{2}"})).at("text");
  EXPECT_EQ(number.size(), 6u);
  EXPECT_EQ(number[3], '-');
  // A request says so itself; its thinking stays free.
  const json chat = json::parse(R"({"messages": [{"role": "user", "content": "hi!"}], "response_format":
      {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["yes", "no"]}}}})");
  const json answer = generate({"generate", "-m", model(), "--temp", "0", "--chat", chat.dump()});
  EXPECT_TRUE(answer.at("text") == "\"yes\"" || answer.at("text") == "\"no\"") << answer;
  EXPECT_NE(answer.at("reasoning"), "");
}

TEST(Generate, ASystemPromptMakesAChat) {
  const json want = generate({"generate", "-m", model(), "--temp", "0", "--chat",
                              R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi!"}])"});
  const Arguments base = {"generate", "-m", model(), "--temp", "0", "--system-prompt", "Be brief."};
  EXPECT_EQ(generate(with(base, {"-p", "hi!"})), want);
  EXPECT_EQ(generate(with(base, {"--chat", R"([{"role": "user", "content": "hi!"}])"})), want);
  EXPECT_EQ(generate({"generate", "-m", model(), "--temp", "0", "-sys", "Be brief.", "-p", "hi!"}), want);
}

TEST(Generate, VerboseFiguresGoToStderr) {
  const Ended r = run(with(kHello, {"-v"}));
  EXPECT_EQ(r.out, run(kHello).out);
  EXPECT_NE(r.err.find("tokens/s"), std::string::npos);
}

}  // namespace
}  // namespace nibble::cli
