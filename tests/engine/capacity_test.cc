#include "engine/capacity.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "cache/prefix_index.h"

namespace nibble::engine {
namespace {

constexpr int64_t kGB = 1'000'000'000;

// Kimi K3's own: 69 KDA layers, 24 MLA layers.
constexpr cache::Shape kK3 = {.kda_layers = 69,
                              .heads = 96,
                              .key_dim = 128,
                              .value_dim = 128,
                              .taps = 4,
                              .mla_layers = 24,
                              .latent_dim = 512,
                              .shared_dim = 64,
                              .dtype = DType::kBf16};

TEST(Capacity, CountsK3sBytes) {
  EXPECT_EQ(kK3.bytes_per_page(), 64 * 27'648);                    // of MLA cache a token
  EXPECT_EQ(kK3.bytes_per_slot(), 69 * (96 * 128 * 128 * 4         // S0
                                        + 96 * 16 * 3 * 128 * 4    // records
                                        + 3 * 3 * 96 * 128 * 2));  // windows
}

TEST(Capacity, GivesEverySequenceItsContextWhereMemoryAllows) {
  const Capacity c =
      plan_capacity({.context = 1000, .model_context = 4096, .sequences = 4, .available_bytes = 100 * kGB}, kK3);
  EXPECT_EQ(c.context, 1000);
  EXPECT_EQ(c.pages, 4 * 16);
}

TEST(Capacity, ShortensTheContextToMemoryWhereNoneIsAsked) {
  const Capacity c = plan_capacity({.model_context = 1'048'576, .sequences = 1, .available_bytes = 20 * kGB}, kK3);
  const int64_t fitting = (10 * kGB - kK3.bytes_per_slot()) / kK3.bytes_per_page();
  EXPECT_EQ(c.pages, fitting);
  EXPECT_EQ(c.context, fitting * 64);
}

TEST(Capacity, KeepsToTheBytesAsked) {
  const CapacityRequest request = {
      .context = 640, .model_context = 4096, .sequences = 8, .cache_bytes = 5 * kGB, .available_bytes = 1000 * kGB};
  const Capacity c = plan_capacity(request, kK3);
  EXPECT_LE(c.pages * kK3.bytes_per_page() + 8 * kK3.bytes_per_slot(), 5 * kGB);
  EXPECT_GE(c.pages, 10);
  EXPECT_LT(c.pages, 80);  // not all eight at full length
}

TEST(Capacity, SplitsOneBudgetInThree) {
  const int64_t copy = cache::PrefixIndex::bytes_per_checkpoint(kK3);
  EXPECT_EQ(copy, kK3.bytes_per_slot() + kK3.bytes_per_page());
  CapacityRequest request = {
      .context = 640, .model_context = 4096, .sequences = 2, .cache_bytes = 8 * kGB, .checkpoint_bytes = 3 * copy + 5};
  Capacity c = plan_capacity(request, kK3);
  EXPECT_EQ(c.checkpoints, 3);
  EXPECT_EQ(c.pages, 2 * 2 * 10);
  request.checkpoint_bytes = 0;
  EXPECT_EQ(plan_capacity(request, kK3).checkpoints, 0);
  EXPECT_EQ(plan_capacity(request, kK3).pages, 2 * 10);
  request.checkpoint_bytes = -1;  // a quarter of what the slots leave
  c = plan_capacity(request, kK3);
  EXPECT_EQ(c.checkpoints, (8 * kGB - 2 * kK3.bytes_per_slot()) / 4 / copy);
  EXPECT_LE(c.pages * kK3.bytes_per_page() + 2 * kK3.bytes_per_slot() + c.checkpoints * copy, 8 * kGB);
  request.cache_bytes = 2 * kK3.bytes_per_slot() + 11 * kK3.bytes_per_page();  // nothing to spare
  c = plan_capacity(request, kK3);
  EXPECT_EQ(c.checkpoints, 0);
  EXPECT_EQ(c.pages, 11);
}

TEST(Capacity, RefusesWhatCannotFit) {
  const auto refusal = [](const CapacityRequest& request) -> std::string {
    try {
      plan_capacity(request, kK3);
    } catch (const Refusal& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(refusal({.context = 5000, .model_context = 4096, .sequences = 1, .available_bytes = 100 * kGB})
                .find("max_position_embeddings"),
            std::string::npos);
  EXPECT_NE(refusal({.model_context = 4096, .sequences = 64, .available_bytes = 2 * kGB}).find("for the cache"),
            std::string::npos);
  const std::string split = refusal(
      {.context = 4096, .model_context = 4096, .sequences = 2, .cache_bytes = 3 * kGB, .checkpoint_bytes = 3 * kGB});
  EXPECT_NE(split.find(std::to_string(2 * kK3.bytes_per_slot())), std::string::npos) << split;
  EXPECT_NE(split.find("checkpoints have"), std::string::npos) << split;
  EXPECT_NE(refusal({.context = 4096, .model_context = 4096, .sequences = 1, .cache_bytes = kK3.bytes_per_slot()})
                .find("one sequence of that length needs"),
            std::string::npos);
}

}  // namespace
}  // namespace nibble::engine
