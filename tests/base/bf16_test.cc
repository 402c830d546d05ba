// Rounding to bfloat16, for every bit pattern of a bf16 and around every midpoint.
#include "base/bf16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace nibble {
namespace {

TEST(Bf16, EveryCodeRoundTrips) {
  for (uint32_t u = 0; u < 0x10000; ++u) {
    const Bf16 x{static_cast<uint16_t>(u)};
    if (std::isnan(to_float(x))) {
      EXPECT_TRUE(std::isnan(to_float(to_bf16(to_float(x)))));
    } else {
      EXPECT_EQ(to_bf16(to_float(x)), x);
    }
  }
}

TEST(Bf16, TiesGoToEvenAndNeighboursToTheNearest) {
  for (uint32_t u = 0; u < 0x7F7F; ++u) {  // positive finite values below the largest
    const uint32_t low = u << 16, mid = low + 0x8000;
    EXPECT_EQ(to_bf16(std::bit_cast<float>(mid)).bits, (u & 1) ? u + 1 : u);
    EXPECT_EQ(to_bf16(std::bit_cast<float>(mid - 1)).bits, u);
    EXPECT_EQ(to_bf16(std::bit_cast<float>(mid + 1)).bits, u + 1);
  }
}

TEST(Bf16, OverflowIsInfinityAndNanStaysNan) {
  EXPECT_EQ(to_float(to_bf16(std::numeric_limits<float>::max())), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7F800001u)))));  // payload only in the low half
}

}  // namespace
}  // namespace nibble
