// `nibble eval` through the program: the reference's answers, one file whatever the batch and wherever it was killed.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cli/program.h"

namespace nibble::cli {
namespace {

using nlohmann::json;

const std::string kGolden = std::string(NIBBLE_SOURCE_DIR) + "/tests/golden/";
const std::string kProblems = kGolden + "problems.jsonl";

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class EvalTest : public ::testing::Test {
 protected:
  EvalTest() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = ::testing::TempDir() + "/nibble_eval_" + info->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~EvalTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  Arguments arguments(const std::string& out, const Arguments& more = {}) const {
    Arguments all = {"eval", "-m", model(), "--problems", kProblems, "--out", path(out)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // The first problems, answered to the end.
  std::string evaluate(const std::string& out, const Arguments& more) const {
    const Ended r = run(arguments(out, more));
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.err, "");
    return slurp(path(out));
  }
  Ended audit(const std::string& records, const Arguments& more = {}) const {
    std::ofstream(path("audited")) << records;
    Arguments all = {"eval", "--audit", path("audited"), "--problems", kProblems};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }

  std::string folder_;
};

TEST_F(EvalTest, AnswersAreTheReference) {
  const std::pair<const char*, const char*> formats[] = {{"mxfp4", "k3-tiny"}, {"nvfp4", "k3-tiny-nvfp4"}};
  for (const auto& [format, name] : formats) {
    const std::string out = path(format);
    const Ended r = run({"eval", "-m", model(name), "--problems", kProblems, "--limit", "20", "--out", out});
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.out, "exact_match 19/20\n");  // problem 5 is one of the four that the model gets wrong
    std::ifstream records(out), answers(kGolden + "answers-" + format + ".jsonl");
    std::string record, answer;
    std::getline(records, record);  // the header
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(std::getline(records, record) && std::getline(answers, answer));
      const json got = json::parse(record), want = json::parse(answer);
      EXPECT_EQ(got.at("id"), want.at("id"));
      EXPECT_EQ(got.at("tokens"), want.at("tokens"));
      EXPECT_EQ(got.at("right"), i != 5);
      EXPECT_EQ(got.at("finish_reason"), "stop");
    }
    EXPECT_FALSE(std::getline(records, record));
  }
}

TEST_F(EvalTest, OneFileWhateverTheBatch) {
  const std::string one = evaluate("1", {"--limit", "12", "--batch", "1"});
  EXPECT_EQ(evaluate("5", {"--limit", "12", "--batch", "5"}), one);
  EXPECT_EQ(evaluate("64", {"--limit", "12", "--batch", "64", "--threads", "3"}), one);
  EXPECT_NE(evaluate("x", {"--limit", "12", "--precision", "exact"}), one);  // the header says so
}

// Killed while it writes, several times in a row, each time at another size of the file.
TEST_F(EvalTest, KilledAndResumedIsTheSameFile) {
  const std::string whole = evaluate("whole", {"--limit", "12", "--batch", "2"});
  int64_t incomplete = 0;
  for (const size_t size : {size_t{1}, whole.size() / 3, whole.size() * 2 / 3}) {
    std::string command;
    for (const std::string& word : arguments("killed", {"--limit", "12", "--batch", "2", "--resume"})) {
      command += " '" + word + "'";
    }
    const std::string file = path("killed");
    const std::string script = "'" + program_path() + "'" + command +
                               " & pid=$!\nwhile kill -0 $pid 2>/dev/null && [ \"$(stat -c %s '" + file +
                               "' 2>/dev/null || echo 0)\" -lt " + std::to_string(size) +
                               " ]; do :; done\nkill -9 $pid 2>/dev/null\nwait $pid 2>/dev/null\ntrue";
    EXPECT_EQ(run_program("/bin/bash", {"--norc", "-c", script}).code, 0);
    const std::string left = slurp(file);
    EXPECT_GE(left.size(), size);
    EXPECT_TRUE(whole.starts_with(left)) << size;
    incomplete += left != whole ? 1 : 0;
  }
  EXPECT_GT(incomplete, 0);
  EXPECT_EQ(evaluate("killed", {"--limit", "12", "--batch", "3", "--resume"}), whole);
  // And once more: there is nothing left to do.
  EXPECT_EQ(evaluate("killed", {"--limit", "12", "--resume"}), whole);
}

TEST_F(EvalTest, QuestionsAreAskedAsAChat) {
  std::ifstream file(kProblems);
  std::ofstream questions(path("questions"));
  std::string line;
  for (int i = 0; i < 3 && std::getline(file, line); ++i) {
    json problem = json::parse(line);
    problem.erase("prompt_tokens");
    questions << problem.dump() << "\n";
  }
  questions.close();
  const Ended r = run({"eval", "-m", model(), "--problems", path("questions"), "--out", path("asked")});
  EXPECT_EQ(r.out, "exact_match 3/3\n") << r.err;
  EXPECT_EQ(slurp(path("asked")), evaluate("ids", {"--limit", "3"}));
  // An audit has to make the prompts again.
  const Ended blind = run({"eval", "--audit", path("asked"), "--problems", path("questions")});
  EXPECT_EQ(blind.code, 2);
  EXPECT_NE(blind.err.find("-m DIR"), std::string::npos) << blind.err;
  EXPECT_EQ(run({"eval", "--audit", path("asked"), "--problems", path("questions"), "-m", model()}).code, 0);
}

TEST_F(EvalTest, AuditTellsARunFromAForgery) {
  const std::string records = evaluate("run", {"--limit", "4", "--max-tokens", "40"});
  const Ended good = audit(records, {"-m", model()});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_TRUE(good.out.ends_with("\nexact_match 2/4\n")) << good.out;  // the others were cut at 40

  const auto doubted = [&](const std::string& from, const std::string& to, const Arguments& more) {
    std::string changed = records;
    changed.replace(changed.find(from), from.size(), to);
    const Ended r = audit(changed, more);
    EXPECT_EQ(r.out, "") << to;
    return r.code == 1 ? r.err : "";
  };
  const Arguments with_model = {"-m", model()};
  EXPECT_NE(doubted("\"right\":true", "\"right\":false", {}).find("right is not"), std::string::npos);
  EXPECT_NE(doubted("\"id\":1,", "\"id\":2,", {}).find("a second time"), std::string::npos);
  // What only the model can tell.
  EXPECT_NE(doubted("307,288,", "307,289,", with_model).find("text is not its tokens'"), std::string::npos);
  EXPECT_NE(doubted("\"finish_reason\":\"length\"", "\"finish_reason\":\"stop\"", with_model).find("last token"),
            std::string::npos);
  EXPECT_NE(audit(records, {"-m", model("k3-tiny-nvfp4")}).err.find("the weights are not those"), std::string::npos);
  EXPECT_EQ(audit(records.substr(0, records.size() - 1)).code, 1);
}

TEST_F(EvalTest, ReferenceDecidesTheExitCode) {
  const std::string records = evaluate("run", {"--limit", "20"});
  const Ended passed = audit(records, {"--reference", "1315/1319"});
  EXPECT_EQ(passed.code, 0);
  EXPECT_NE(passed.out.find("passed\nexact_match 19/20\n"), std::string::npos) << passed.out;
  const std::string cut = evaluate("cut", {"--limit", "20", "-n", "40"});
  const Ended failed = audit(cut, {"--reference", "99.5%"});
  EXPECT_EQ(failed.code, 1);
  EXPECT_NE(failed.out.find("failed\nexact_match "), std::string::npos) << failed.out;

  const Ended compared = run({"eval", "--compare", path("run"), path("cut"), "--json"});
  EXPECT_EQ(compared.code, 0) << compared.err;
  const json c = json::parse(compared.out);
  EXPECT_EQ(c.at("right_a"), 19);
  EXPECT_EQ(c.at("only_b"), json::array());
  EXPECT_EQ(c.at("only_a").size(), 19 - c.at("right_b").get<size_t>());
  EXPECT_NEAR(c.at("mcnemar_p").get<double>(), 2.0 * std::pow(0.5, c.at("only_a").size()), 1e-9);
}

TEST_F(EvalTest, PerplexityIsThatOfScore) {
  std::ofstream(path("text")) << "Liam has 9 pears. Tara brings 8 crates.";
  const json p =
      json::parse(run({"eval", "-m", model(), "--text", path("text"), "--precision", "exact", "--json"}).out);
  const Ended score = run({"score", "-m", model(), "-f", path("text")});
  char want[80];
  std::snprintf(want, sizeof(want), "mean negative log-likelihood %.6f, perplexity %.6f\n",
                p.at("mean_nll").get<double>(), p.at("perplexity").get<double>());
  EXPECT_TRUE(score.out.ends_with(want)) << score.out << want;
  EXPECT_EQ(p.at("predicted"), p.at("tokens").get<int>() - 1);
  // Two windows predict one token less.
  const json cut = json::parse(run({"eval", "-m", model(), "--text", path("text"), "-c", "10", "--json"}).out);
  const int tokens = p.at("tokens");
  EXPECT_EQ(cut.at("predicted"), tokens - (tokens + 9) / 10);
}

TEST_F(EvalTest, Refusals) {
  const auto refused = [](const Arguments& words, const std::string& says, const std::string& input = "") {
    const Ended r = run(words, {.input = input});
    EXPECT_EQ(r.code, 2) << says << r.out;
    EXPECT_EQ(r.out, "");
    EXPECT_NE(r.err.find(says), std::string::npos) << r.err;
  };
  refused({"eval", "-m", model()}, "no --problems");
  refused({"eval", "-m", model(), "--problems", kProblems}, "no --out");
  refused({"eval", "--problems", kProblems, "--out", path("x")}, "-m, --model");
  refused(arguments("x", {"--batch", "0"}), "--batch 0");
  refused(arguments("x", {"--batch", "4097"}), "--batch 4097");
  refused(arguments("x", {"--limit", "0"}), "--limit 0");
  refused(arguments("x", {"--audit", "y"}), "several of --out, --audit");
  refused({"eval", "--audit", "y"}, "no --problems");
  refused({"eval", "--compare", "/no/such", "/no/such"}, "--compare /no/such");
  refused({"eval", "--audit", kProblems, "--problems", kProblems, "--reference", "1"}, "--reference 1");
  refused({"eval", "-m", model(), "--problems", "-", "--out", path("x")}, "not a JSON object", "x");
  refused({"eval", "-m", model(), "--problems", "-", "--out", path("x")}, "problem 3: token id 2048",
          R"({"id": 3, "answer": "1", "prompt_tokens": [2048]})");
  refused(arguments("x", {"-c", "20"}), "a prompt of ");
  refused({"eval", "-m", model(), "--text", "-"}, "0 tokens");
  refused({"eval", "-m", model(), "--text", "-", "-c", "5000"}, "a model of 4096 positions", "some text");
  EXPECT_FALSE(std::filesystem::exists(path("x")));
  std::ofstream(path("x")) << "mine";
  refused(arguments("x"), "the file is there already");
  refused(arguments("x", {"--resume"}), "not a file of records");
  EXPECT_EQ(slurp(path("x")), "mine");
}

}  // namespace
}  // namespace nibble::cli
