#include "engine/logprobs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace nibble::engine {
namespace {

TokenLogprob logprob_of(const std::vector<float>& logits, int32_t id, int32_t top) {
  std::vector<int32_t> order;
  TokenLogprob out{.id = -1, .logprob = 7.0f, .top = {{5, 5.0f}}};  // what an earlier call left
  token_logprob(logits, id, top, order, out);
  return out;
}

TEST(Logprobs, SumToOneAndDescend) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0f, 8.0f);
  std::vector<float> logits(1001);
  for (float& x : logits) x = normal(random);
  const TokenLogprob all = logprob_of(logits, 17, 1001);
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
  const TokenLogprob out = logprob_of(logits, 2, 3);
  ASSERT_EQ(out.top.size(), 3u);
  EXPECT_EQ(out.top[0].first, 1);
  EXPECT_EQ(out.top[1].first, 2);
  EXPECT_EQ(out.top[2].first, 4);
}

TEST(Logprobs, LargeLogitsDoNotOverflow) {
  const std::vector<float> logits = {3e38f, -3e38f, 3e38f};
  EXPECT_NEAR(logprob_of(logits, 0, 0).logprob, std::log(0.5f), 1e-6);
  EXPECT_TRUE(logprob_of(logits, 0, 0).top.empty());
}

}  // namespace
}  // namespace nibble::engine
