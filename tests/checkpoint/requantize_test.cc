// A matrix in fewer bits: the same bytes as row by row, values within half a step, whatever the shape.
#include "checkpoint/requantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/bf16.h"
#include "base/error.h"
#include "fp4/quantize.h"

namespace nibble::checkpoint {
namespace {

using fp4::WeightFormat;

struct Matrix {
  std::vector<Bf16> values;
  MatrixSource source;
  Matrix(int64_t rows, int64_t cols) : values(static_cast<size_t>(rows * cols)) {
    std::mt19937 random(1);
    std::normal_distribution<float> draw(0.0f, 0.02f);
    for (Bf16& x : values) x = to_bf16(draw(random));
    source = {.format = WeightFormat::kBf16, .rows = rows, .cols = cols, .codes = std::as_bytes(std::span(values))};
  }
  float at(int64_t row, int64_t col) const { return to_float(values[static_cast<size_t>(row * source.cols + col)]); }
  std::vector<float> row(int64_t r) const {
    std::vector<float> out;
    for (int64_t c = 0; c < source.cols; ++c) out.push_back(at(r, c));
    return out;
  }
};

TEST(Requantize, Mxfp4IsThatOfEachRow) {
  const Matrix m(300, 96);
  const HostMatrix got = requantize(m.source, WeightFormat::kMxfp4);
  ASSERT_EQ(got.codes.size(), 300u * 48);
  ASSERT_EQ(got.scales.size(), 300u * 3);
  for (int64_t r = 0; r < 300; ++r) {
    std::vector<uint8_t> codes(48);
    std::vector<fp4::E8m0> scales(3);
    fp4::quantize_mxfp4(m.row(r), codes, scales);
    for (size_t i = 0; i < 48; ++i)
      EXPECT_EQ(std::to_integer<uint8_t>(got.codes[static_cast<size_t>(r) * 48 + i]), codes[i]);
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ(std::to_integer<uint8_t>(got.scales[static_cast<size_t>(r) * 3 + i]), scales[i].bits);
  }
}

TEST(Requantize, Mxfp8IsThatOfEachRow) {
  const Matrix m(300, 96);
  const HostMatrix got = requantize(m.source, WeightFormat::kMxfp8);
  ASSERT_EQ(got.codes.size(), 300u * 96);
  ASSERT_EQ(got.scales.size(), 300u * 3);
  for (int64_t r = 0; r < 300; ++r) {
    std::vector<fp4::E4m3> codes(96);
    std::vector<fp4::E8m0> scales(3);
    fp4::quantize_mxfp8(m.row(r), codes, scales);
    for (size_t i = 0; i < 96; ++i)
      EXPECT_EQ(std::to_integer<uint8_t>(got.codes[static_cast<size_t>(r) * 96 + i]), codes[i].bits);
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ(std::to_integer<uint8_t>(got.scales[static_cast<size_t>(r) * 3 + i]), scales[i].bits);
  }
}

// Tiles that the matrix fills only partly, in both directions.
TEST(Requantize, Fp8ReachesTheLargestOfEachTile) {
  const Matrix m(300, 200);
  const HostMatrix got = requantize(m.source, WeightFormat::kFp8Block);
  ASSERT_EQ(got.codes.size(), 300u * 200);
  ASSERT_EQ(got.scales.size(), 3u * 2 * sizeof(float));
  const auto* codes = reinterpret_cast<const fp4::E4m3*>(got.codes.data());
  const auto* scales = reinterpret_cast<const float*>(got.scales.data());
  for (int64_t r = 0; r < 300; ++r) {
    for (int64_t c = 0; c < 200; ++c) {
      const float scale = scales[r / 128 * 2 + c / 128], back = to_float(codes[r * 200 + c]) * scale, want = m.at(r, c);
      // Four bits of mantissa, and at the bottom steps of 2^-9.
      EXPECT_LE(std::fabs(back - want), std::max(std::fabs(want) / 16, scale * 0x1p-10f) * 1.001f) << r << " " << c;
    }
  }
  for (int64_t band = 0; band < 3; ++band) {
    for (int64_t tile = 0; tile < 2; ++tile) {
      float largest = 0;
      for (int64_t r = band * 128; r < std::min<int64_t>(300, band * 128 + 128); ++r) {
        for (int64_t c = tile * 128; c < std::min<int64_t>(200, tile * 128 + 128); ++c) {
          largest = std::max(largest, std::fabs(m.at(r, c)));
        }
      }
      EXPECT_EQ(scales[band * 2 + tile], largest / 448.0f);
    }
  }
}

TEST(Requantize, RefusesWhatItCannot) {
  const Matrix odd(4, 40);
  EXPECT_FALSE(can_requantize(odd.source, WeightFormat::kMxfp4));
  EXPECT_FALSE(can_requantize(odd.source, WeightFormat::kMxfp8));
  EXPECT_TRUE(can_requantize(odd.source, WeightFormat::kFp8Block));
  EXPECT_THROW(requantize(odd.source, WeightFormat::kMxfp4), ContractError);
  EXPECT_THROW(requantize(odd.source, WeightFormat::kNvfp4), ContractError);
  Matrix bad(130, 64);
  bad.values[64 * 129 + 5] = to_bf16(INFINITY);
  EXPECT_THROW(requantize(bad.source, WeightFormat::kFp8Block), ContractError);
  EXPECT_THROW(requantize(bad.source, WeightFormat::kMxfp4), ContractError);
  EXPECT_THROW(requantize(bad.source, WeightFormat::kMxfp8), ContractError);
}

}  // namespace
}  // namespace nibble::checkpoint
