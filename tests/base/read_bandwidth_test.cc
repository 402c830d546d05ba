#include "base/read_bandwidth.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nibble {
namespace {

// How much it is depends on the machine; that a figure comes of any size and number of threads does not.
TEST(ReadBandwidth, ComesOfAnySize) {
  for (const int threads : {1, 2, 3}) {
    for (const int64_t bytes : {int64_t{1}, int64_t{64} * 1001, int64_t{1} << 22}) {
      const ReadBandwidth b = measure_read_bandwidth(threads, bytes);
      EXPECT_TRUE(std::isfinite(b.gb_per_s) && b.gb_per_s > 0.0);
      EXPECT_EQ(b.threads, threads);
      EXPECT_GE(b.bytes, std::min<int64_t>(bytes, bytes / 64 * 64));
    }
  }
}

}  // namespace
}  // namespace nibble
