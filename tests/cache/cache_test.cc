// Pages and slots: what is taken comes back, and a refusal takes nothing.
#include "cache/cache.h"

#include <gtest/gtest.h>

#include "cpu/cpu_device.h"
#include "cpu/isa.h"

namespace nibble::cache {
namespace {

constexpr Shape kShape = {.kda_layers = 2,
                          .heads = 3,
                          .key_dim = 16,
                          .value_dim = 8,
                          .taps = 4,
                          .mla_layers = 2,
                          .latent_dim = 32,
                          .shared_dim = 8,
                          .dtype = DType::kBf16};

class CacheTest : public ::testing::Test {
 protected:
  cpu::CpuDevice device_{*cpu::best_isa().kernels, 1};
  Cache cache_{device_, kShape, 5, 2};
};

TEST_F(CacheTest, ReservesByPageAndReleasesAll) {
  Sequence a, b;
  EXPECT_TRUE(cache_.reserve(a, 1));
  EXPECT_EQ(a.pages.size(), 1u);
  EXPECT_TRUE(cache_.reserve(a, 64));
  EXPECT_EQ(a.pages.size(), 1u);
  EXPECT_TRUE(cache_.reserve(a, 65));
  EXPECT_EQ(a.pages.size(), 2u);
  EXPECT_TRUE(cache_.reserve(b, 192));
  EXPECT_EQ(cache_.free_pages(), 0);
  EXPECT_EQ(cache_.free_slots(), 0);
  cache_.release(a);
  cache_.release(b);
  EXPECT_EQ(cache_.free_pages(), 5);
  EXPECT_EQ(cache_.free_slots(), 2);
  EXPECT_EQ(a.slot, -1);
}

TEST_F(CacheTest, ARefusalTakesNothing) {
  Sequence a, b;
  ASSERT_TRUE(cache_.reserve(a, 64 * 4));
  EXPECT_FALSE(cache_.reserve(b, 65));
  EXPECT_EQ(b.slot, -1);
  EXPECT_TRUE(b.pages.empty());
  EXPECT_EQ(cache_.free_slots(), 1);
  EXPECT_EQ(cache_.free_pages(), 1);
}

TEST_F(CacheTest, LayersDoNotOverlap) {
  std::vector<Extent> all;
  for (int64_t i = 0; i < 2; ++i) {
    const auto k = cache_.kda(i);
    for (const Extent e : {extent(k.q_window), extent(k.k_window), extent(k.v_window), extent(k.state),
                           extent(k.records), extent(cache_.mla(i))}) {
      for (const Extent other : all) EXPECT_FALSE(e.begin < other.end && other.begin < e.end);
      all.push_back(e);
    }
  }
}

TEST_F(CacheTest, BytesAreThoseOfTheViews) {
  const auto bytes = [](const Extent& e) { return static_cast<int64_t>(e.end - e.begin); };
  int64_t slot_bytes = 0, page_bytes = 0;
  for (int64_t i = 0; i < 2; ++i) {
    const auto k = cache_.kda(i);
    slot_bytes += bytes(extent(k.q_window)) + bytes(extent(k.k_window)) + bytes(extent(k.v_window)) +
                  bytes(extent(k.state)) + bytes(extent(k.records));
    page_bytes += bytes(extent(cache_.mla(i)));
  }
  EXPECT_EQ(slot_bytes, 2 * kShape.bytes_per_slot());
  EXPECT_EQ(page_bytes, 5 * kShape.bytes_per_page());
}

}  // namespace
}  // namespace nibble::cache
