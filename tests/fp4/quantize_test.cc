// Weight rows to and from MXFP4, NVFP4, FP8 tiles and MXFP8, against the same rules written in double.
#include "fp4/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/error.h"
#include "fp4/activation.h"

namespace nibble::fp4 {
namespace {

std::vector<float> normal(size_t n, float deviation, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw(0.0f, deviation);
  std::vector<float> out(n);
  for (float& x : out) x = draw(random);
  return out;
}
double amax_of(const std::vector<float>& x, size_t from, size_t count) {
  double amax = 0.0;
  for (size_t i = from; i < from + count; ++i) amax = std::max(amax, std::fabs(double(x[i])));
  return amax;
}

TEST(Mxfp4Weights, FollowsTheFloorRule) {
  for (const float deviation : {1.0f, 0.01f, 3e4f, 1e-20f}) {
    const std::vector<float> row = normal(96, deviation, 3);
    std::vector<uint8_t> codes(48, 0xCC);
    std::vector<E8m0> scales(3, E8m0{0xCC});
    std::vector<float> back(96, NAN);
    quantize_mxfp4(row, codes, scales);
    dequantize<Mxfp4>(codes, scales, 1.0f, back);
    for (size_t g = 0; g < 3; ++g) {
      const double scale = std::exp2(std::floor(std::log2(amax_of(row, g * 32, 32))) - 2);
      EXPECT_EQ(double(to_float(scales[g])), scale);
      for (size_t i = g * 32; i < g * 32 + 32; ++i) {
        const double saturated = std::min(std::fabs(double(row[i])), 6 * scale);
        const double step = saturated <= 2 * scale ? 0.5 : saturated <= 4 * scale ? 1.0 : 2.0;
        EXPECT_LE(std::fabs(std::fabs(double(back[i])) - saturated), step * scale / 2);
      }
    }
  }
}

TEST(Mxfp4Weights, QuantisingTwiceChangesNothing) {
  const std::vector<float> row = normal(1024, 0.3f, 4);
  std::vector<uint8_t> codes(512), again(512);
  std::vector<E8m0> scales(32), scales_again(32);
  std::vector<float> back(1024);
  quantize_mxfp4(row, codes, scales);
  dequantize<Mxfp4>(codes, scales, 1.0f, back);
  quantize_mxfp4(back, again, scales_again);
  EXPECT_EQ(codes, again);
  EXPECT_EQ(scales, scales_again);
}

TEST(Mxfp4Weights, ZeroAndSubnormalGroups) {
  std::vector<float> row(64, 0.0f);
  row[40] = 1e-44f;  // far below what the smallest scale can hold
  std::vector<uint8_t> codes(32, 0xCC);
  std::vector<E8m0> scales(2, E8m0{0xCC});
  quantize_mxfp4(row, codes, scales);
  EXPECT_EQ(scales[0].bits, 0);
  EXPECT_EQ(scales[1].bits, 0);
  for (const uint8_t byte : codes) EXPECT_EQ(byte, 0);
}

TEST(Nvfp4Weights, DivisorAndMultiplierAreNotTheSame) {
  const std::vector<float> row = normal(160, 0.05f, 6);
  const auto amax = float(amax_of(row, 0, 160));
  const float divisor = nvfp4_divisor(amax);
  EXPECT_FLOAT_EQ(divisor, 448.0f * 6.0f / amax);
  std::vector<uint8_t> codes(80, 0xCC);
  std::vector<E4m3> scales(10, E4m3{0xCC});
  std::vector<float> back(160, NAN), wrong(160);
  quantize_nvfp4(row, divisor, codes, scales);
  dequantize<Nvfp4>(codes, scales, 1.0f / divisor, back);
  dequantize<Nvfp4>(codes, scales, divisor, wrong);
  double worst = 0.0, worst_wrong = 0.0;
  for (size_t i = 0; i < row.size(); ++i) {
    const double group = amax_of(row, i / 16 * 16, 16);
    worst = std::max(worst, std::fabs(double(back[i]) - double(row[i])) / group);
    worst_wrong = std::max(worst_wrong, std::fabs(double(wrong[i]) - double(row[i])) / group);
  }
  EXPECT_LT(worst, 1.0 / 6 + 0.0625);  // half the widest code step, and the rounding of the scale
  EXPECT_GT(worst_wrong, 1e3);         // the planted fault: off by the divisor squared
}

TEST(Nvfp4Weights, ZeroGroupHasZeroCodesAndNanScaleShows) {
  std::vector<float> row(32, 0.0f), back(32);
  row[20] = 1.0f;
  std::vector<uint8_t> codes(16, 0xCC);
  std::vector<E4m3> scales(2, E4m3{0xCC});
  quantize_nvfp4(row, nvfp4_divisor(1.0f), codes, scales);
  EXPECT_EQ(scales[0].bits, 0);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(codes[i], 0);
  scales[1] = E4m3{0x7F};
  dequantize<Nvfp4>(codes, scales, 1.0f, back);
  EXPECT_EQ(back[0], 0.0f);
  for (size_t i = 16; i < 32; ++i) EXPECT_TRUE(std::isnan(back[i]));
}

TEST(Fp8Weights, EachTileHasItsScale) {
  std::vector<E4m3> codes(300, E4m3{0x38});  // 1.0
  const std::vector<float> scales = {2.0f, 0.5f, 3.0f};
  std::vector<float> row(300, NAN);
  dequantize_fp8(codes, scales, row);
  EXPECT_EQ(row[127], 2.0f);
  EXPECT_EQ(row[128], 0.5f);
  EXPECT_EQ(row[299], 3.0f);
}

TEST(Mxfp8Weights, NothingSaturatesUnderTheSmallestScale) {
  for (const float deviation : {1.0f, 0.01f, 3e3f, 1e-20f}) {
    const std::vector<float> row = normal(96 * 8, deviation, 8);
    std::vector<E4m3> codes(row.size(), E4m3{0xCC});
    std::vector<E8m0> scales(row.size() / 32, E8m0{0xCC});
    std::vector<float> back(row.size(), NAN);
    quantize_mxfp8(row, codes, scales);
    dequantize_mxfp8(codes, scales, back);
    bool floor_saturates = false;
    for (size_t i = 0; i < row.size(); ++i) {
      const double amax = amax_of(row, i / 32 * 32, 32), scale = std::exp2(std::ceil(std::log2(amax / 448)));
      ASSERT_EQ(double(to_float(scales[i / 32])), scale);
      const double x = std::fabs(double(row[i]));
      const double step = std::max(std::exp2(std::floor(std::log2(x / scale)) - 3), 0x1p-9) * scale;
      EXPECT_LE(std::fabs(double(back[i]) - double(row[i])), step / 2) << i;
      floor_saturates |= amax > 464 * std::exp2(std::floor(std::log2(amax)) - 8);
    }
    EXPECT_TRUE(floor_saturates);  // or the rules would not have been told apart
  }
}

TEST(Mxfp8Weights, QuantisingTwiceChangesNothing) {
  const std::vector<float> row = normal(1024, 0.3f, 4);
  std::vector<E4m3> codes(1024);
  std::vector<E8m0> scales(32);
  std::vector<float> once(1024), twice(1024);
  quantize_mxfp8(row, codes, scales);
  dequantize_mxfp8(codes, scales, once);
  quantize_mxfp8(once, codes, scales);
  dequantize_mxfp8(codes, scales, twice);
  EXPECT_EQ(once, twice);
}

TEST(WeightQuantisers, RefuseLengthsAndNonFinite) {
  std::vector<float> row(32, 1.0f);
  std::vector<uint8_t> codes(16);
  std::vector<E8m0> scales(2);
  EXPECT_THROW(quantize_mxfp4(row, codes, scales), ContractError);
  scales.resize(1);
  EXPECT_THROW(dequantize<Mxfp4>(codes, scales, 2.0f, row), ContractError);  // MXFP4 has no tensor scale
  row[3] = NAN;
  EXPECT_THROW(quantize_mxfp4(row, codes, scales), ContractError);
  const std::vector<E4m3> values(129);
  const std::vector<float> one_tile(1);
  std::vector<float> out(129);
  EXPECT_THROW(dequantize_fp8(values, one_tile, out), ContractError);
  std::vector<E4m3> eight(32);
  EXPECT_THROW(quantize_mxfp8(row, eight, scales), ContractError);  // the NaN
  row[3] = INFINITY;
  EXPECT_THROW(quantize_mxfp8(row, eight, scales), ContractError);
  row[3] = 57345.0f;
  EXPECT_THROW(quantize_mxfp8(row, eight, scales), ContractError);
  row[3] = 57344.0f;
  EXPECT_NO_THROW(quantize_mxfp8(row, eight, scales));
  EXPECT_EQ(scales[0], Mxfp8::kMaxScale);
  eight.resize(31);
  EXPECT_THROW(quantize_mxfp8(row, eight, scales), ContractError);
}

}  // namespace
}  // namespace nibble::fp4
