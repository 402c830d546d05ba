// What the command line refuses: one line on stderr that names the flag, nothing on stdout, exit code 2.
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/program.h"

namespace nibble::cli {
namespace {

struct Case {
  Arguments arguments;
  std::string says;  // part of the line
  std::string input = "";
};

void expect_refused(const Case& c) {
  std::string shown;
  for (const std::string& word : c.arguments) shown += word.substr(0, 60) + " ";
  const Ended r = run(c.arguments, {.input = c.input});
  EXPECT_EQ(r.code, 2) << shown << r.err;
  EXPECT_EQ(r.out, "") << shown;
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << shown << r.err;
  EXPECT_TRUE(r.err.starts_with("nibble: ") && r.err.ends_with('\n')) << r.err;
  EXPECT_NE(r.err.find(c.says), std::string::npos) << shown << r.err;
}

Arguments generate(const Arguments& more) {
  Arguments arguments = {"generate", "-m", model()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}
Arguments flag(const std::string& name, const std::string& value) { return generate({"-p", "x", name, value}); }

TEST(Refused, WordsThatAreNoCommandOrFlag) {
  expect_refused({{"generat"}, "did you mean generate?"});
  expect_refused({{"scroe", "-m", "x"}, "did you mean score?"});
  expect_refused({{"zzzzzz"}, "zzzzzz: no such command; see nibble --help"});
  expect_refused({{"ops"}, "see nibble ops --help"});
  expect_refused({{"ops", "certfy"}, "did you mean certify?"});
  expect_refused({{"--verson"}, "did you mean --version?"});
  expect_refused({generate({"--tmep", "1"}), "--tmep: no such flag for nibble generate; did you mean --temp?"});
  expect_refused({generate({"--tmep=1"}), "did you mean --temp?"});
  expect_refused({{"ops", "list", "--jsn"}, "did you mean --json?"});
  expect_refused({generate({"-p", "x", "y"}), "y: nibble generate takes no such argument"});
  expect_refused({generate({"-p"}), "--prompt"});
  expect_refused({generate({"-p", "x", "--temp", "1", "--temp", "2"}), "--temp"});
  expect_refused({flag("--precision", "fp8"), "fp8"});
  expect_refused({flag("--mla", "fast"), "fast"});
  expect_refused({flag("--dense", "int8"), "int8"});
  expect_refused({flag("--pin", "maybe"), "maybe"});
  expect_refused({flag("--numa", "on"), "--numa"});
  expect_refused({flag("--numa", ""), "--numa"});
}

TEST(Refused, Models) {
  expect_refused({{"generate", "-p", "x"}, "-m, --model: no model was named"});
  expect_refused({{"score", "-m", "/no/such", "--tokens", "1"}, "-m /no/such: no such directory"});
  expect_refused({{"chat", "-m", model() + "/config.json"}, "a file, not a directory"});
  expect_refused({{"generate", "-m", ::testing::TempDir(), "-p", "x"}, "config.json"});
  expect_refused({{"inspect", "-m", "/no/such"}, "no such directory"});
}

TEST(Refused, Devices) {
  expect_refused({flag("--device", "tpu"), "device tpu"});
  expect_refused({flag("--device", "cuda:x"), "device cuda:x"});
  expect_refused({flag("--device", "cuda:999"), "device cuda:999"});
  expect_refused({flag("--isa", "sse"), "isa sse"});
  expect_refused({flag("--require", "cuda"), "--require cuda"});
  expect_refused({flag("--require", "a"), "--require a"});  // part of a name is not the name
  expect_refused({flag("--threads", "-1"), "--threads -1"});
  expect_refused({flag("--threads", "1025"), "--threads 1025"});
  expect_refused({flag("--threads", "two"), "--threads two"});
  expect_refused({flag("--ctx-size", "1g"), "--ctx-size 1g"});
  expect_refused({flag("--ctx-size", "5000"), "context 5000"});
}

TEST(Refused, Prompts) {
  expect_refused({generate({}), "the prompt: nothing"});
  expect_refused({generate({"-p", "x", "--tokens", "1"}), "the prompt: --prompt and --tokens"});
  expect_refused({generate({"-p", ""}), "the prompt: no tokens"});
  expect_refused({generate({"--tokens", ""}), "the prompt: no tokens"});
  expect_refused({generate({"--tokens-file", "-"}), "the prompt: no tokens", " \n"});
  expect_refused({generate({"-f", "/no/such"}), "-f /no/such"});
  expect_refused({generate({"-f", "/"}), "-f /"});
  expect_refused({generate({"-p", "a\xFF"}), "UTF-8"});
  std::string ids;
  for (int i = 0; i < 4096; ++i) ids += "1 ";
  expect_refused({generate({"--tokens-file", "-"}), "4096 tokens", ids});
  expect_refused({{"score", "-m", model(), "--tokens-file", "-"}, "4097 tokens", ids + "1"});
  expect_refused({{"score", "-m", model(), "--tokens", "1,2,3", "-c", "2"}, "the context is 2 tokens"});
}

TEST(Refused, Constraints) {
  const auto constrained = [](const Arguments& more) {
    Arguments out = {"generate", "-m", model(), "-p", "x"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  };
  expect_refused({constrained({"--json-schema", R"({"not": {}})"}), "json_schema: the keyword \"not\" at #"});
  expect_refused({constrained({"--json-schema", "/no/such"}), "--json-schema /no/such"});
  expect_refused({constrained({"--regex", "(a)\\1"}), "regex: a backreference"});
  expect_refused({constrained({"--regex", "a", "--json-object"}), "beside json_object"});
  expect_refused({constrained({"--system-prompt", "s", "--tokens", "1"}), "the prompt: --prompt and --tokens"});
  expect_refused({generate({"--tokens", "1", "--system-prompt", "s"}), "--system-prompt: token ids beside it"});
  expect_refused({generate({"--chat", R"([{"role": "system", "content": "a"}, {"role": "user", "content": "b"}])",
                            "--system-prompt", "s"}),
                  "--system-prompt: a system message in --chat"});
}

TEST(Refused, Ids) {
  for (const char* text :
       {"1,,2", "1,", ",1", "-1", "+1", "1x", "0x1", "1.5", "1 2", "2147483648", "99999999999999999999"}) {
    expect_refused({{"score", "-m", model(), "--tokens", text}, "--tokens: "});
    expect_refused({generate({"--tokens", text}), "--tokens: "});
  }
  expect_refused({generate({"--tokens-file", "-"}), "--tokens-file: '-2' as entry 2", "1 -2"});
  expect_refused({{"score", "-m", model(), "--tokens", "5,2048"}, "token id 2048: at place 2"});
  expect_refused({generate({"--tokens", "2147483647"}), "ids of this model are 0 to 2047"});
}

TEST(Refused, Chats) {
  const auto chat = [](const std::string& text) { return generate({"--chat", text}); };
  expect_refused({chat(""), "the chat's JSON"});
  expect_refused({chat("hi"), "not JSON"});
  expect_refused({chat("[]"), "messages: an empty list"});
  expect_refused({chat("[{\"role\":\n\"wizard\", \"content\": \"x\"}]"), "wizard"});
  expect_refused({chat("@/no/such"), "--chat /no/such"});
  expect_refused({chat("-"), "not JSON", "{"});
  expect_refused({generate({"--chat", R"([{"role":"user","content":"x"}])", "--effort", "medium"}), "--effort medium"});
  expect_refused({{"chat", "-m", model(), "--effort", "x"}, "--effort x"});
}

TEST(Refused, Sampling) {
  for (const char* text : {"-1", "nan", "inf", "100.5", "", "hot", "1,0"})
    expect_refused({flag("--temp", text), "--temp"});
  for (const char* text : {"0", "-0.1", "1.01", "nan"}) expect_refused({flag("--top-p", text), "--top-p"});
  for (const char* text : {"-1", "1.5", "x"}) expect_refused({flag("--top-k", text), "--top-k"});
  for (const char* text : {"-0.1", "1.1"}) expect_refused({flag("--min-p", text), "--min-p"});
  for (const char* text : {"0", "-1", "nan"}) expect_refused({flag("--repeat-penalty", text), "--repeat-penalty"});
  expect_refused({flag("--repetition-penalty", "0"), "--repeat-penalty"});
  expect_refused({flag("--presence-penalty", "101"), "--presence-penalty"});
  expect_refused({flag("--frequency-penalty", "x"), "--frequency-penalty"});
  for (const char* text : {"-1", "1.5", "18446744073709551616"}) expect_refused({flag("--seed", text), "--seed"});
  for (const char* text : {"1", "1:", ":1", "x:1", "1:x", "-1:1", "1:inf", "1:nan", "1,2:3"}) {
    expect_refused({flag("--logit-bias", text), "--logit-bias"});
  }
  expect_refused({flag("--logit-bias", "2048:1"), "logit_bias: id 2048"});
  Arguments many = generate({"-p", "x"});
  for (int i = 0; i < 1025; ++i) many.insert(many.end(), {"--logit-bias", std::to_string(i) + ":1"});
  expect_refused({many, "logit_bias entries: 1025"});
}

TEST(Refused, Counts) {
  for (const char* text : {"0", "-2", "x", "1.5", "9223372036854775808"}) expect_refused({flag("-n", text), "-n "});
  for (const char* text : {"0", "2049", "-1", "x"}) {
    expect_refused({{"score", "-m", model(), "--tokens", "1", "--top", text}, "top "});
  }
  for (const char* text : {"4097", "-1", "x"}) {
    expect_refused({{"score", "-m", model(), "--tokens", "1", "--chunk", text}, "chunk "});
  }
}

TEST(Refused, Ops) { expect_refused({{"ops", "certify", "--op", "liner"}, "try: --op linear"}); }

TEST(Refused, ScoreJsonLeavesStdoutEmpty) {
  expect_refused({{"score", "-m", model(), "--tokens", "1", "--top", "0", "--json"}, "top 0"});
}

}  // namespace
}  // namespace nibble::cli
