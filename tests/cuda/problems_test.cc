// 200 problems on the GPU: in exact mode the reference's tokens, at batch 1, 8 and 64, with graphs and without.
#include "engine/problems.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdio>
#include <mutex>

#include "nibble/engine.h"
#include "testing/test_device.h"

namespace nibble::engine {
namespace {

struct Case {
  const char *name, *format;
  Precision precision;
  int64_t batch, problems;
  bool graphs;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class ProblemsTest : public ::testing::TestWithParam<Case> {};

TEST_P(ProblemsTest, AreTheReferences) {
  const Case& c = GetParam();
  const std::vector<Problem> problems = load_problems(c.problems, c.format);
  EngineOptions options;
  options.model = model_directory(c.format);
  options.device = testing::device_under_test();
  options.max_sequences = c.batch;
  options.precision = c.precision;
  options.context = 512;
  options.record_steps = c.graphs;
  Engine engine(options);
  std::vector<std::vector<int32_t>> tokens(problems.size());
  std::mutex mutex;
  std::condition_variable done;
  size_t finished = 0, same = 0;
  for (size_t i = 0; i < problems.size(); ++i) {
    Request request;
    request.prompt = problems[i].prompt;
    request.sampling.temperature = 0.0f;
    request.max_tokens = 200;
    engine.submit(request, [&, i](Engine::Id, const Output& output) {
      tokens[i].insert(tokens[i].end(), output.tokens.begin(), output.tokens.end());
      if (output.finish == FinishReason::kNone) return;
      const std::lock_guard lock(mutex);
      if (++finished == problems.size()) done.notify_one();
    });
  }
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return finished == problems.size(); });
  for (size_t i = 0; i < problems.size(); ++i) {
    same += tokens[i] == problems[i].answer;
    if (c.precision == Precision::kExact) {
      EXPECT_EQ(tokens[i], problems[i].answer) << "problem " << problems[i].id;
    }
  }
  std::printf("%s: %zu of %zu answers token-identical\n", c.name, same, problems.size());
  EXPECT_GE(same * 100, problems.size() * 95);
}

constexpr auto kExact = Precision::kExact, kBf16 = Precision::kBf16;
INSTANTIATE_TEST_SUITE_P(Gpu, ProblemsTest,
                         ::testing::Values(Case{"mxfp4_exact_64", "mxfp4", kExact, 64, 200, true},
                                           Case{"nvfp4_exact_64", "nvfp4", kExact, 64, 200, true},
                                           Case{"mxfp4_exact_8", "mxfp4", kExact, 8, 40, true},
                                           Case{"mxfp4_exact_1", "mxfp4", kExact, 1, 8, true},
                                           Case{"mxfp4_exact_64_eager", "mxfp4", kExact, 64, 200, false},
                                           Case{"mxfp4_bf16_64", "mxfp4", kBf16, 64, 200, true},
                                           Case{"nvfp4_bf16_64", "nvfp4", kBf16, 64, 200, true}),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace nibble::engine
