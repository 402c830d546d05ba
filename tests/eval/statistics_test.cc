#include "eval/statistics.h"

#include <gtest/gtest.h>

namespace nibble::eval {
namespace {

// The threshold of the published protocol: 96.5 % of GSM8K's 1,319 problems passes from 93.2975 % on.
TEST(Statistics, ThresholdIsTheProtocols) {
  EXPECT_NEAR(pass_threshold({.share = 0.965, .problems = 1319}, 1319), 0.932975, 5e-7);
  // A reference of very many problems has no error of its own.
  EXPECT_NEAR(pass_threshold({.share = 0.5, .problems = 1'000'000'000}, 100), 0.5 - 1.64485 * 0.05, 1e-6);
}

// Worked by hand: sums of binomial coefficients over powers of two.
TEST(Statistics, McNemar) {
  EXPECT_EQ(mcnemar_p(0, 0), 1.0);
  EXPECT_EQ(mcnemar_p(3, 3), 1.0);
  EXPECT_NEAR(mcnemar_p(0, 1), 1.0, 1e-12);
  EXPECT_NEAR(mcnemar_p(0, 5), 2.0 / 32, 1e-12);
  EXPECT_NEAR(mcnemar_p(1, 9), 2.0 * 11 / 1024, 1e-12);
  EXPECT_NEAR(mcnemar_p(9, 1), mcnemar_p(1, 9), 1e-12);
  EXPECT_LT(mcnemar_p(0, 1300), 1e-300);
}

}  // namespace
}  // namespace nibble::eval
