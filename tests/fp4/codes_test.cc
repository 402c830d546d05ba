// The three small floats, on every code and at every rounding boundary, against tables made by search in double.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "fp4/format.h"

namespace nibble::fp4 {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

static_assert(Format<Mxfp4> && Format<Nvfp4>);
static_assert(to_float(E2m1{5}) == 3.0f && to_float(E8m0{127}) == 1.0f && to_float(E4m3{0x38}) == 1.0f, "constexpr");

// The definition, in double, from exponent and mantissa widths.
double minifloat(int code, int exponent_bits, int mantissa_bits, int bias) {
  const int sign = code >> (exponent_bits + mantissa_bits) & 1;
  const int e = code >> mantissa_bits & ((1 << exponent_bits) - 1), m = code & ((1 << mantissa_bits) - 1);
  const double fraction = double(m) / (1 << mantissa_bits);
  const double magnitude = e == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1.0 + fraction, e - bias);
  return sign != 0 ? -magnitude : magnitude;
}
double e2m1(int code) { return minifloat(code, 2, 1, 1); }
double e4m3(int code) { return minifloat(code, 4, 3, 7); }

// Nearest of codes 0..last by search, ties to the even code. The slow, obvious rounding.
template <class Value>
int nearest(double x, int last, const Value& value) {
  int best = 0;
  for (int c = 1; c <= last; ++c) {
    const double d = std::fabs(value(c) - x), held = std::fabs(value(best) - x);
    if (d < held || (d == held && c % 2 == 0)) best = c;
  }
  return best;
}

TEST(E2m1Codes, EveryCodeHasItsValueAndRoundTrips) {
  for (int c = 0; c < 16; ++c) {
    const E2m1 x{static_cast<uint8_t>(c)};
    EXPECT_EQ(double(to_float(x)), e2m1(c));
    EXPECT_EQ(std::signbit(to_float(x)), c >= 8);
    EXPECT_EQ(to_e2m1(to_float(x)), x);
  }
}

TEST(E2m1Codes, TiesGoToEvenAndNeighboursToTheNearest) {
  for (int c = 0; c < 7; ++c) {
    const float mid = float((e2m1(c) + e2m1(c + 1)) / 2);
    EXPECT_EQ(to_e2m1(mid).bits, c % 2 == 0 ? c : c + 1) << mid;
    EXPECT_EQ(to_e2m1(std::nextafter(mid, 0.0f)).bits, c);
    EXPECT_EQ(to_e2m1(std::nextafter(mid, 9.0f)).bits, c + 1);
    EXPECT_EQ(to_e2m1(-mid).bits, 8 + (c % 2 == 0 ? c : c + 1));
  }
}

TEST(E2m1Codes, SaturatesAndHasNoNan) {
  for (const float x : {6.5f, 1e30f, kInfinity, kNan}) EXPECT_EQ(to_e2m1(x).bits, 7);
  EXPECT_EQ(to_e2m1(-kInfinity).bits, 15);
  EXPECT_EQ(to_e2m1(1e-45f).bits, 0);
}

// Rounding half away from zero, a common wrong version, differs at four of the seven midpoints.
TEST(E2m1Codes, HalfAwayFromZeroIsCaught) {
  int differs = 0;
  for (int c = 0; c < 7; ++c) differs += to_e2m1(float((e2m1(c) + e2m1(c + 1)) / 2)).bits != c + 1;
  EXPECT_EQ(differs, 4);
}

TEST(E2m1Codes, LowNibbleIsTheEvenElement) {
  for (int a = 0; a < 16; ++a) {
    for (int b = 0; b < 16; ++b) {
      const uint8_t byte = pack(E2m1{static_cast<uint8_t>(a)}, E2m1{static_cast<uint8_t>(b)});
      EXPECT_EQ(byte, a | b << 4);
      EXPECT_EQ(unpack_even(byte).bits, a);
      EXPECT_EQ(unpack_odd(byte).bits, b);
    }
  }
  EXPECT_EQ(to_float(unpack_even(0x2B)), -1.5f);  // docs/model.md 3.1
  EXPECT_EQ(to_float(unpack_odd(0x2B)), 1.0f);
}

TEST(E4m3Codes, EveryCodeHasItsValueAndRoundTrips) {
  for (int c = 0; c < 256; ++c) {
    const E4m3 x{static_cast<uint8_t>(c)};
    if ((c & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(to_float(x)) && is_nan(x) && is_nan(to_e4m3(to_float(x))));
      continue;
    }
    EXPECT_EQ(double(to_float(x)), e4m3(c));
    EXPECT_FALSE(is_nan(x));
    EXPECT_EQ(to_e4m3(to_float(x)), x);
  }
}

TEST(E4m3Codes, TiesGoToEvenAndNeighboursToTheNearest) {
  for (int c = 0; c < 0x7E; ++c) {
    const float mid = float((e4m3(c) + e4m3(c + 1)) / 2);
    EXPECT_EQ(to_e4m3(mid).bits, c % 2 == 0 ? c : c + 1) << mid;
    EXPECT_EQ(to_e4m3(std::nextafter(mid, 0.0f)).bits, c);
    EXPECT_EQ(to_e4m3(std::nextafter(mid, 999.0f)).bits, c + 1);
  }
}

TEST(E4m3Codes, AgreesWithSearchOnRandomValues) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> exponent(-12.0f, 9.0f);
  for (int i = 0; i < 20000; ++i) {
    const float x = std::exp2(exponent(random));
    EXPECT_EQ(to_e4m3(x).bits, nearest(x, 0x7E, e4m3)) << x;
  }
}

TEST(E4m3Codes, SaturatesAndKeepsNan) {
  for (const float x : {449.0f, 464.0f, 480.0f, 1e30f, kInfinity}) EXPECT_EQ(to_e4m3(x).bits, 0x7E) << x;
  EXPECT_EQ(to_e4m3(-kInfinity).bits, 0xFE);
  EXPECT_TRUE(is_nan(to_e4m3(kNan)) && is_nan(to_e4m3(-kNan)));
  EXPECT_EQ(to_e4m3(0x1p-10f).bits, 0);  // half the smallest subnormal: ties to even, zero
  EXPECT_EQ(to_e4m3(std::nextafter(0x1p-10f, 1.0f)).bits, 1);
}

TEST(E8m0Codes, EveryCodeHasItsValue) {
  for (int c = 0; c < 255; ++c) {
    const E8m0 x{static_cast<uint8_t>(c)};
    EXPECT_EQ(double(to_float(x)), std::ldexp(1.0, c - 127));
    EXPECT_EQ(double(to_float(x)) * double(reciprocal(x)), 1.0);
    EXPECT_EQ(to_e8m0_round_up(to_float(x)), x);
  }
  EXPECT_TRUE(is_nan(E8m0{255}) && std::isnan(to_float(E8m0{255})) && std::isnan(reciprocal(E8m0{255})));
}

TEST(E8m0Codes, RoundsUpToTheNextPowerAndSaturates) {
  for (int c = 0; c < 254; ++c) {
    const float power = std::ldexp(1.0f, c - 127);
    EXPECT_EQ(to_e8m0_round_up(std::nextafter(power, kInfinity)).bits, c + 1);
  }
  EXPECT_EQ(to_e8m0_round_up(0.0f).bits, 0);
  EXPECT_EQ(to_e8m0_round_up(1e-45f).bits, 0);
  EXPECT_EQ(to_e8m0_round_up(kInfinity).bits, 254);
  EXPECT_TRUE(is_nan(to_e8m0_round_up(kNan)));
}

}  // namespace
}  // namespace nibble::fp4
