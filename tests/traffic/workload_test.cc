#include "traffic/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace nibble::traffic {
namespace {

WorkloadOptions options() {
  return {.requests = 2000,
          .rate = 4.0,
          .prompt = parse_lengths("--prompt-len", "uniform:2:5"),
          .output = parse_lengths("--output-len", "lognormal:100:0.5"),
          .ids = 7,
          .seed = 3};
}

TEST(Workload, IsItsSeeds) {
  const auto a = make_workload(options()), b = make_workload(options());
  WorkloadOptions other = options();
  other.seed = 30;
  const auto c = make_workload(other);
  int64_t equal = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].prompt, b[i].prompt);
    EXPECT_EQ(a[i].output, b[i].output);
    EXPECT_EQ(a[i].arrival, b[i].arrival);
    equal += a[i].output == c[i].output ? 1 : 0;
  }
  EXPECT_LT(equal, 100);
}

TEST(Workload, RateMovesArrivalsAlone) {
  WorkloadOptions closed = options();
  closed.rate = 0.0;
  const auto a = make_workload(options()), b = make_workload(closed);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].prompt, b[i].prompt);
    EXPECT_EQ(a[i].output, b[i].output);
    EXPECT_EQ(b[i].arrival, 0.0);
    EXPECT_TRUE(i == 0 || a[i].arrival > a[i - 1].arrival);
  }
  EXPECT_NEAR(a.back().arrival, 2000 / 4.0, 35.0);  // three standard deviations
}

TEST(Workload, LengthsAreOfTheirDistribution) {
  const auto requests = make_workload(options());
  std::vector<int64_t> counts(6), outputs;
  double squares = 0.0;
  for (const PlannedRequest& r : requests) {
    ++counts.at(r.prompt.size());
    for (const int32_t id : r.prompt) EXPECT_TRUE(id >= 0 && id < 7);
    outputs.push_back(r.output);
    squares += std::pow(std::log(static_cast<double>(r.output) / 100.0), 2);
  }
  EXPECT_EQ(counts[0] + counts[1], 0);
  for (size_t n = 2; n <= 5; ++n) EXPECT_NEAR(static_cast<double>(counts[n]), 500.0, 60.0) << n;
  std::nth_element(outputs.begin(), outputs.begin() + 1000, outputs.end());
  EXPECT_NEAR(static_cast<double>(outputs[1000]), 100.0, 5.0);
  EXPECT_NEAR(std::sqrt(squares / 2000.0), 0.5, 0.03);
  EXPECT_LE(*std::max_element(outputs.begin(), outputs.end()), 800);
  EXPECT_GE(*std::min_element(outputs.begin(), outputs.end()), 1);
}

TEST(Lengths, Refusals) {
  Random random(1);
  EXPECT_EQ(parse_lengths("-x", "128").draw(random), 128);
  for (const char* text :
       {"", "0", "-1", "1.5", "x", "uniform", "uniform:1", "uniform:5:4", "uniform:0:4", "uniform:1:2:3",
        "lognormal:10", "lognormal:10:-1", "lognormal:10:nan", "lognormal:10:5", "normal:1:2", "99999999999", "12 "}) {
    EXPECT_THROW(parse_lengths("--prompt-len", text), Refusal) << text;
  }
}

}  // namespace
}  // namespace nibble::traffic
