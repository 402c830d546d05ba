#include "engine/logprobs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace nibble::engine {
namespace {

TEST(Logprobs, SumToOneAndDescend) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0f, 8.0f);
  std::vector<float> logits(1001);
  for (float& x : logits) x = normal(random);
  const TokenLogprob all = token_logprob(logits, 17, 1001);
  ASSERT_EQ(all.top.size(), logits.size());
  double sum = 0.0;
  for (size_t i = 0; i < all.top.size(); ++i) {
    sum += std::exp(static_cast<double>(all.top[i].second));
    EXPECT_GE(all.top[i == 0 ? 0 : i - 1].second, all.top[i].second);
    EXPECT_TRUE(all.top[i].first != 17 || all.top[i].second == all.logprob);
  }
  EXPECT_NEAR(sum, 1.0, 1e-6);
}

TEST(Logprobs, EqualsGoByLowerId) {
  const std::vector<float> logits = {1.0f, 3.0f, 3.0f, -5.0f, 3.0f};
  const TokenLogprob out = token_logprob(logits, 2, 3);
  ASSERT_EQ(out.top.size(), 3u);
  EXPECT_EQ(out.top[0].first, 1);
  EXPECT_EQ(out.top[1].first, 2);
  EXPECT_EQ(out.top[2].first, 4);
}

TEST(Logprobs, LargeLogitsDoNotOverflow) {
  const std::vector<float> logits = {3e38f, -3e38f, 3e38f};
  EXPECT_NEAR(token_logprob(logits, 0, 0).logprob, std::log(0.5f), 1e-6);
  EXPECT_TRUE(token_logprob(logits, 0, 0).top.empty());
}

}  // namespace
}  // namespace nibble::engine
