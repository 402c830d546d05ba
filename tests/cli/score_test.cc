// `nibble score` against the fp64 goldens of both bundled checkpoints.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>

#include "cli/program.h"
#include "testing/golden.h"

namespace nibble::cli {
namespace {

using nlohmann::json;
using testing::Golden;
using testing::GoldenPrompt;

constexpr double kTolerance = 2e-5;  // 6.2e-6 was the worst measured (16 prompts, avx2)

struct Format {
  const char *name, *model;
};
constexpr Format kFormats[] = {{"mxfp4", "k3-tiny"}, {"nvfp4", "k3-tiny-nvfp4"}};

json score(const std::string& model_name, const std::vector<int32_t>& tokens, const Arguments& more = {}) {
  Arguments arguments = {"score", "-m", model(model_name), "--tokens", joined(tokens), "--top", "8", "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Ended r = run(arguments);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err, "");
  return json::parse(r.out);
}

// The worst difference of a logit or a logsumexp; infinite where ids or sizes differ.
double difference(const json& scored, const Golden& golden, const GoldenPrompt& prompt) {
  const auto ids = golden.ints(prompt.key + ".top_ids");
  const auto logits = golden.floats(prompt.key + ".top_logits"), sums = golden.floats(prompt.key + ".logsumexp");
  const json& positions = scored.at("positions");
  if (scored.at("tokens").get<std::vector<int32_t>>() != prompt.tokens || positions.size() != prompt.tokens.size()) {
    return HUGE_VAL;
  }
  double worst = 0.0;
  for (size_t i = 0; i < positions.size(); ++i) {
    worst = std::max(worst, std::abs(positions[i].at("logsumexp").get<double>() - sums[i]));
    for (size_t k = 0; k < 8; ++k) {
      if (positions[i].at("top_ids")[k].get<int32_t>() != ids[8 * i + k]) return HUGE_VAL;
      worst = std::max(worst, std::abs(positions[i].at("top_logits")[k].get<double>() - logits[8 * i + k]));
    }
  }
  return worst;
}

TEST(Score, IsTheReference) {
  const Golden golden;
  for (const Format& format : kFormats) {
    for (const GoldenPrompt& prompt : golden.prompts(format.name)) {
      EXPECT_LE(difference(score(format.model, prompt.tokens), golden, prompt), kTolerance) << prompt.key;
    }
  }
}

// What another checkpoint says, and what activations in bf16 say, is told apart.
TEST(Score, ToleranceTellsModelsAndPrecisionsApart) {
  const Golden golden;
  const GoldenPrompt& prompt = golden.prompts("mxfp4")[1];
  EXPECT_GT(difference(score("k3-tiny-nvfp4", prompt.tokens), golden, prompt), kTolerance);
  EXPECT_GT(difference(score("k3-tiny", prompt.tokens, {"--precision", "bf16"}), golden, prompt), kTolerance);
}

TEST(Score, ChunksAndThreadsChangeNothing) {
  const Golden golden;
  const GoldenPrompt& prompt = golden.prompts("mxfp4")[3];
  const json whole = score("k3-tiny", prompt.tokens);
  for (const char* chunk : {"1", "7", "64", "4096"}) {
    EXPECT_EQ(score("k3-tiny", prompt.tokens, {"--chunk", chunk}), whole) << chunk;
  }
  EXPECT_EQ(score("k3-tiny", prompt.tokens, {"--threads", "1"}), whole);
}

TEST(Score, TokensFromAFileOrStdinAreTheSame) {
  const RunOptions input{.input = "1795 265\n277\n"};
  const Ended from_file = run({"score", "-m", model(), "--tokens-file", "-", "--json"}, input);
  EXPECT_EQ(from_file.out, run({"score", model(), "--tokens", "1795,265,277", "--json"}).out);
  EXPECT_EQ(from_file.code, 0);
}

TEST(Score, TopMayBeTheWholeVocabulary) {
  const Ended r = run({"score", "-m", model(), "--tokens", "1795", "--top", "2048", "--json"});
  const json position = json::parse(r.out).at("positions")[0];
  EXPECT_EQ(position.at("top_ids").size(), 2048u);
  double sum = 0.0;
  for (const json& logit : position.at("top_logits"))
    sum += std::exp(logit.get<double>() - position.at("logsumexp").get<double>());
  EXPECT_NEAR(sum, 1.0, 1e-6);
}

// The table's mean is that of the JSON's log-probabilities.
TEST(Score, TableSumsUp) {
  const std::vector<int32_t> tokens = {1795, 265, 300, 301};
  const json scored = json::parse(run({"score", model(), "--tokens", joined(tokens), "--top", "2048", "--json"}).out);
  double sum = 0.0;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const json& position = scored.at("positions")[i];
    const auto ids = position.at("top_ids").get<std::vector<int32_t>>();
    const auto at = static_cast<size_t>(std::find(ids.begin(), ids.end(), tokens[i + 1]) - ids.begin());
    sum -= position.at("top_logits")[at].get<double>() - position.at("logsumexp").get<double>();
  }
  const Ended table = run({"score", model(), "--tokens", joined(tokens)});
  const std::string marker = "mean negative log-likelihood ";
  const size_t at = table.out.find(marker);
  ASSERT_NE(at, std::string::npos) << table.out;
  EXPECT_NEAR(std::stod(table.out.substr(at + marker.size())), sum / 3.0, 1e-5);
}

}  // namespace
}  // namespace nibble::cli
