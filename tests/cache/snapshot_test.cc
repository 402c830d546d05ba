// A sequence put aside and put back, elsewhere, on every device.
#include "cache/snapshot.h"

#include <gtest/gtest.h>

#include <numeric>

#include "testing/devices.h"

namespace nibble::cache {
namespace {

constexpr Shape kShape = {.kda_layers = 3,
                          .heads = 2,
                          .key_dim = 4,
                          .value_dim = 6,
                          .taps = 4,
                          .mla_layers = 2,
                          .latent_dim = 6,
                          .shared_dim = 2,
                          .dtype = DType::kBf16};

class SnapshotTest : public testing::OnEveryDevice {};

TEST_P(SnapshotTest, ComesBackIntoAnotherSlotAndOtherPages) {
  Cache cache(device(), kShape, 8, 3);
  Sequence s, other;
  ASSERT_TRUE(cache.reserve(s, 130));
  s.length = 130;
  std::vector<std::byte> written(static_cast<size_t>(copy_bytes(kShape, 3))), read(written.size());
  for (size_t i = 0; i < written.size(); ++i) written[i] = static_cast<std::byte>(i * 7 + i / 251);
  copy_in(cache, s, 0, written);
  device().synchronize();

  Snapshot snapshot;
  snapshot.take(cache, s);
  EXPECT_EQ(snapshot.length(), 130);
  EXPECT_EQ(snapshot.bytes(), static_cast<int64_t>(written.size()));
  const int32_t slot = s.slot;
  const std::vector<int32_t> pages = s.pages;
  cache.poison_freed(true);
  cache.release(s);
  ASSERT_TRUE(cache.reserve(other, 64));
  ASSERT_TRUE(cache.reserve(s, 140));
  EXPECT_NE(s.slot, slot);
  EXPECT_NE(s.pages, pages);
  snapshot.put_back(cache, s);
  EXPECT_EQ(s.length, 130);
  EXPECT_EQ(snapshot.bytes(), 0);
  copy_out(cache, s, 0, read);
  device().synchronize();
  EXPECT_EQ(read, written);
}

TEST_P(SnapshotTest, FreedMemoryIsNaN) {
  Cache cache(device(), kShape, 2, 1);
  cache.poison_freed(true);
  Sequence s;
  ASSERT_TRUE(cache.reserve(s, 128));
  s.length = 128;
  std::vector<std::byte> bytes(static_cast<size_t>(copy_bytes(kShape, 2)));
  copy_in(cache, s, 0, bytes);  // zeros
  cache.release(s);
  ASSERT_TRUE(cache.reserve(s, 128));
  s.length = 128;
  copy_out(cache, s, 0, bytes);
  device().synchronize();
  EXPECT_EQ(bytes, std::vector<std::byte>(bytes.size(), std::byte{0xFF}));
}

NIBBLE_ON_EVERY_DEVICE(SnapshotTest);

}  // namespace
}  // namespace nibble::cache
