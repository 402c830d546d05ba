// Activation quantisers: each scale recipe is told from the others, and non-finite rows cannot pass for numbers.
#include "fp4/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"

namespace nibble::fp4 {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> heavy_tailed(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::student_t_distribution<float> draw(2.0f);
  std::vector<float> out(n);
  for (float& x : out) x = draw(random);
  return out;
}

// The rules in double.
int expected_byte(double amax, ScaleRecipe recipe) {
  if (recipe == ScaleRecipe::kRoundUpFloor) amax = std::max(amax, double(1e-4f));
  if (amax == 0.0) return 0;
  const double e =
      recipe == ScaleRecipe::kOcpFloor ? std::floor(std::log2(amax)) - 8 : std::ceil(std::log2(amax / 448));
  return int(std::min(254.0, std::max(0.0, e + 127)));
}

TEST(Mxfp8Scale, FollowsItsRecipeAtEveryBoundary) {
  for (int k = -100; k <= 100; ++k) {
    for (const float base : {448.0f, 256.0f, 1.75f, 1.0f, 3.0f}) {
      for (const float toward : {0.0f, kInfinity}) {
        const float at = std::ldexp(base, k);
        for (const float amax : {at, std::nextafter(at, toward)}) {
          for (const auto r : {ScaleRecipe::kRoundUp, ScaleRecipe::kRoundUpFloor, ScaleRecipe::kOcpFloor}) {
            EXPECT_EQ(mxfp8_scale(amax, r).bits, expected_byte(amax, r)) << amax << " recipe " << int(r);
          }
        }
      }
    }
  }
}

TEST(Mxfp8Scale, RecipesRefuteEachOther) {
  // 300 = 1.17 * 2^8: under 448, so both agree; 500 is above 448 and the floor rule saturates it.
  EXPECT_EQ(mxfp8_scale(300.0f, ScaleRecipe::kRoundUp), mxfp8_scale(300.0f, ScaleRecipe::kOcpFloor));
  EXPECT_EQ(mxfp8_scale(500.0f, ScaleRecipe::kRoundUp).bits, 128);
  EXPECT_EQ(mxfp8_scale(500.0f, ScaleRecipe::kOcpFloor).bits, 127);
  EXPECT_EQ(mxfp8_scale(0.0f, ScaleRecipe::kRoundUp).bits, 0);
  EXPECT_EQ(mxfp8_scale(0.0f, ScaleRecipe::kRoundUpFloor).bits, expected_byte(1e-4, ScaleRecipe::kRoundUp));
  EXPECT_TRUE(is_nan(mxfp8_scale(kInfinity, ScaleRecipe::kRoundUp)));
  EXPECT_EQ(mxfp8_scale(std::numeric_limits<float>::max(), ScaleRecipe::kRoundUp).bits, 127 + 120);
}

TEST(Mxfp8Activations, RoundUpNeverSaturatesAndErrorIsHalfAStep) {
  const std::vector<float> row = heavy_tailed(3584, 9);
  std::vector<E4m3> codes(row.size(), E4m3{0xCC});
  std::vector<E8m0> scales(row.size() / 32, E8m0{0xCC});
  std::vector<float> back(row.size(), NAN);
  quantize_mxfp8(row, ScaleRecipe::kRoundUp, codes, scales);
  dequantize_mxfp8(codes, scales, back);
  for (size_t i = 0; i < row.size(); ++i) {
    const double scale = to_float(scales[i / 32]), x = row[i];
    const double step = std::max(std::exp2(std::floor(std::log2(std::fabs(x) / scale)) - 3), 0x1p-9) * scale;
    EXPECT_LE(std::fabs(double(back[i]) - x), step / 2) << i;
  }
  // Negative control: the floor recipe must break that bound somewhere on this row.
  quantize_mxfp8(row, ScaleRecipe::kOcpFloor, codes, scales);
  bool saturated = false;
  for (size_t i = 0; i < row.size(); ++i) saturated |= std::fabs(double(row[i])) > 464.0 * to_float(scales[i / 32]);
  EXPECT_TRUE(saturated);
}

TEST(Mxfp8Activations, NonFiniteGroupsGetNanScales) {
  for (const float bad : {float(NAN), kInfinity, -kInfinity}) {
    std::vector<float> row(64, 1.0f);
    row[35] = bad;
    std::vector<E4m3> codes(64, E4m3{0xCC});
    std::vector<E8m0> scales(2);
    quantize_mxfp8(row, ScaleRecipe::kRoundUp, codes, scales);
    EXPECT_FALSE(is_nan(scales[0]));
    EXPECT_TRUE(is_nan(scales[1]));
    std::vector<float> back(64);
    dequantize_mxfp8(codes, scales, back);
    for (size_t i = 32; i < 64; ++i) EXPECT_TRUE(std::isnan(back[i]));
  }
}

TEST(Nvfp4Activations, BothConventionsOfTheGlobalScaleAgree) {
  const std::vector<float> row = heavy_tailed(64, 12);
  const float divisor = 128.0f;  // a power of two, so that its reciprocal is exact
  std::vector<uint8_t> codes(32, 0xCC), other(32, 0x33);
  std::vector<E4m3> scales(4), other_scales(4);
  quantize_nvfp4_activation(row, divisor, GlobalScale::kDivisor, codes, scales);
  quantize_nvfp4_activation(row, 1.0f / divisor, GlobalScale::kMultiplier, other, other_scales);
  EXPECT_EQ(codes, other);
  EXPECT_EQ(scales, other_scales);
  std::vector<float> back(64);
  dequantize_nvfp4_activation(codes, scales, divisor, GlobalScale::kDivisor, back);
  for (size_t i = 0; i < 64; ++i) {
    double amax = 0.0;
    for (size_t j = i / 16 * 16; j < i / 16 * 16 + 16; ++j) amax = std::max(amax, std::fabs(double(row[j])));
    EXPECT_LE(std::fabs(double(back[i]) - double(row[i])), amax * (1.0 / 6 + 0.0625)) << i;
  }
  quantize_nvfp4_activation(row, divisor, GlobalScale::kMultiplier, other, other_scales);  // the planted fault
  EXPECT_NE(codes, other);
}

TEST(Nvfp4Activations, ZeroAndNonFiniteGroups) {
  std::vector<float> row(32, 0.0f);
  row[17] = NAN;
  std::vector<uint8_t> codes(16, 0xCC);
  std::vector<E4m3> scales(2, E4m3{0xCC});
  quantize_nvfp4_activation(row, 10.0f, GlobalScale::kDivisor, codes, scales);
  EXPECT_EQ(scales[0].bits, 0);
  EXPECT_TRUE(is_nan(scales[1]));
  for (const uint8_t byte : codes) EXPECT_EQ(byte, 0);
  for (const float bad : {0.0f, -1.0f, float(NAN), kInfinity}) {
    EXPECT_THROW(quantize_nvfp4_activation(row, bad, GlobalScale::kDivisor, codes, scales), ContractError);
  }
}

}  // namespace
}  // namespace nibble::fp4
