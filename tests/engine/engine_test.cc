// The engine on the bundled model: greedy tokens are the reference's, whatever runs beside them.
#include "nibble/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>

#include "engine/problems.h"
#include "testing/test_device.h"

namespace nibble::engine {
namespace {

Request greedy(const Problem& problem) {
  Request r;
  r.prompt = problem.prompt;
  r.sampling.temperature = 0.0f;
  r.max_tokens = 200;
  return r;
}

EngineOptions options_for(const std::string& format, Precision precision, int64_t batch) {
  EngineOptions o;
  o.model = model_directory(format);
  o.device = testing::device_under_test();
  o.max_sequences = batch;
  o.precision = precision;
  o.context = 512;
  return o;
}

// Submits all at once and waits: tokens by problem.
std::vector<std::vector<int32_t>> answer_all(Engine& engine, const std::vector<Problem>& problems) {
  std::vector<std::vector<int32_t>> tokens(problems.size());
  std::mutex mutex;
  std::condition_variable done;
  size_t finished = 0;
  for (size_t i = 0; i < problems.size(); ++i) {
    engine.submit(greedy(problems[i]), [&, i](Engine::Id, const Output& output) {
      tokens[i].insert(tokens[i].end(), output.tokens.begin(), output.tokens.end());
      if (output.finish == FinishReason::kNone) return;
      EXPECT_EQ(output.finish, FinishReason::kStop) << output.error;
      const std::lock_guard lock(mutex);
      if (++finished == problems.size()) done.notify_one();
    });
  }
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return finished == problems.size(); });
  return tokens;
}

struct GoldenCase {
  const char* name;
  const char* format;
  Precision precision;
  int64_t batch;
  int64_t problems;  // drawn from the 1,319
};
void PrintTo(const GoldenCase& c, std::ostream* out) { *out << c.name; }

class GoldenAnswers : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(GoldenAnswers, AreTheReferences) {
  const GoldenCase& c = GetParam();
  const std::vector<Problem> problems = draw_problems(c.problems, c.format, 17);
  Engine engine(options_for(c.format, c.precision, c.batch));
  const auto tokens = answer_all(engine, problems);
  for (size_t i = 0; i < problems.size(); ++i) EXPECT_EQ(tokens[i], problems[i].answer) << "problem " << problems[i].id;
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.pages_free, stats.pages_total);
  EXPECT_EQ(stats.slots_free, stats.slots_total);
}

INSTANTIATE_TEST_SUITE_P(Engine, GoldenAnswers,
                         ::testing::Values(GoldenCase{"mxfp4_exact_batch1", "mxfp4", Precision::kExact, 1, 8},
                                           GoldenCase{"mxfp4_exact_batch8", "mxfp4", Precision::kExact, 8, 100},
                                           GoldenCase{"nvfp4_exact_batch8", "nvfp4", Precision::kExact, 8, 100},
                                           GoldenCase{"mxfp4_bf16_batch8", "mxfp4", Precision::kBf16, 8, 10},
                                           GoldenCase{"nvfp4_bf16_batch3", "nvfp4", Precision::kBf16, 3, 10}),
                         [](const auto& golden) { return golden.param.name; });

}  // namespace
}  // namespace nibble::engine
