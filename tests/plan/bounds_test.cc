#include "plan/bounds.h"

#include <gtest/gtest.h>

#include "plan/configs.h"

namespace nibble::plan {
namespace {

TEST(Bounds, DistinctExpertsAreTheDocumented) {
  const checkpoint::Config c = config_of("kimi-k3");
  EXPECT_NEAR(distinct_experts(c, 1), 16.0, 1e-9);
  EXPECT_NEAR(distinct_experts(c, 8), 120.0, 0.5);
  EXPECT_NEAR(distinct_experts(c, 32), 393.0, 0.5);
  EXPECT_NEAR(distinct_experts(c, 128), 807.0, 0.5);
}

TEST(Bounds, OneTokenReadsTheWholeOfIt) {
  const Footprint f = footprint(config_of("kimi-k3"), 1);
  const auto one = static_cast<double>(f.total.read + f.sequence.segment_traffic());
  EXPECT_NEAR(step_bytes(f, 1, 0), one, 1.0);
  EXPECT_NEAR(step_bytes(f, 1, 1000) - step_bytes(f, 1, 0), 27'648'000.0, 1.0);
  EXPECT_NEAR(tokens_per_second(f, 600, 1, 0), 600e9 / one, 1e-9);
  EXPECT_NEAR(tokens_per_second(f, 600, 1, 0), 4.36, 0.02);
  // Shared weights are read once for all.
  EXPECT_LT(step_bytes(f, 8, 0), 8 * step_bytes(f, 1, 0));
  EXPECT_GT(step_bytes(f, 8, 0), step_bytes(f, 1, 0));
}

// Around each edge: the last byte that makes a sequence fit.
TEST(Bounds, WhatFitsFitsToTheByte) {
  const Footprint f = footprint(config_of("kimi-k3"), 1);
  const int64_t weights = f.total.stored, each = f.sequence.slot() + 2 * f.sequence.per_page;  // 65 to 128 tokens
  EXPECT_EQ(sequences_that_fit(f, weights, 100), 0);
  EXPECT_EQ(sequences_that_fit(f, weights - 1, 100), 0);
  EXPECT_EQ(sequences_that_fit(f, weights + 3 * each - 1, 100), 2);
  EXPECT_EQ(sequences_that_fit(f, weights + 3 * each, 100), 3);
  EXPECT_EQ(sequences_that_fit(f, weights + 3 * each, 129), 2);

  const int64_t slot = f.sequence.slot(), page = f.sequence.per_page;
  EXPECT_EQ(context_that_fits(f, 1), 0);
  EXPECT_EQ(context_that_fits(f, weights + slot + page - 1), 0);
  EXPECT_EQ(context_that_fits(f, weights + slot + page), 64);
  EXPECT_EQ(context_that_fits(f, int64_t{1} << 60), f.config.max_position_embeddings);
}

}  // namespace
}  // namespace nibble::plan
