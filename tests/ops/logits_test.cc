// ops/logits.h.
#include "ops/logits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace nibble::ops {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(LogSumExp, KnownValues) {
  EXPECT_DOUBLE_EQ(logsumexp(std::vector<float>{0, 0, 0, 0}), std::log(4.0));
  EXPECT_DOUBLE_EQ(logsumexp(std::vector<float>{1000, 1000}), 1000 + std::log(2.0));
  EXPECT_DOUBLE_EQ(logsumexp(std::vector<float>{-1000, -kInfinity}), -1000.0);
  EXPECT_EQ(logsumexp(std::vector<float>{-kInfinity}), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(logsumexp({}), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(logsumexp(std::vector<float>{1, kInfinity}), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(logsumexp(std::vector<float>{1, std::nanf(""), 3})));
}

TEST(LogSumExp, KeepsSmallTermsOfALongRow) {
  // In fp32 the millionth term of 1 would no longer count beside e^17.
  std::vector<float> x(1000001, 0.0f);
  x[0] = 17.0f;
  EXPECT_NEAR(logsumexp(x), std::log(std::exp(17.0) + 1e6), 2e-10);  // measured: 7e-11
}

TEST(TopIds, LargestFirstLowerIdOnTies) {
  const std::vector<float> x = {1, 5, std::nanf(""), 5, -kInfinity, 2};
  EXPECT_EQ(top_ids(x, 3), (std::vector<int32_t>{1, 3, 5}));
  EXPECT_EQ(top_ids(x, 99), (std::vector<int32_t>{1, 3, 5, 0, 4, 2}));
  EXPECT_TRUE(top_ids(x, 0).empty());
  EXPECT_TRUE(top_ids({}, 3).empty());
}

}  // namespace
}  // namespace nibble::ops
