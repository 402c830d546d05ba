// The vectors of cpu/kernels/vec.h: landings and sums are the same bits as their definitions, on every instruction set
// of this machine.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cpu/math_hooks.h"

namespace nibble::cpu {
namespace {

class VecTest : public ::testing::TestWithParam<std::string> {};

// Every upper half with lower halves around the tie: numbers of every size, infinities and NaNs of both signs.
TEST_P(VecTest, LandsAsBf16Does) {
  constexpr std::array<uint32_t, 5> kLower = {0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001};
  std::array<float, 16> in = {};
  std::array<Bf16, 16> out = {};
  size_t count = 0;
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const uint32_t lower : kLower) {
      in[count++] = std::bit_cast<float>(upper << 16 | lower);
      if (count < in.size()) continue;
      count = 0;
      math_hooks(GetParam()).land(in.data(), out.data());
      for (size_t i = 0; i < in.size(); ++i) {
        ASSERT_EQ(out[i].bits, to_bf16(in[i]).bits) << std::hex << std::bit_cast<uint32_t>(in[i]);
      }
    }
  }
}

// Values of very different sizes: any other order of additions gives other bits. Where columns lie in the lanes makes
// no difference.
TEST_P(VecTest, SumsOfSixteenRowsAreThoseOfOne) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> fraction(-1.0f, 1.0f);
  std::uniform_int_distribution<int> exponent(-12, 12);
  for (int round = 0; round < 100; ++round) {
    std::array<float, 256> rows;
    for (float& x : rows) x = std::ldexp(fraction(random), exponent(random));
    for (const MathHooks::Sums& sums : math_hooks(GetParam()).sums) {
      std::array<float, 16> out = {};
      sums.sixteen(rows.data(), out.data());
      for (size_t r = 0; r < out.size(); ++r) {
        const float* x = rows.data() + r * 16;
        std::array<float, 8> eight;
        for (size_t i = 0; i < 8; ++i) eight[i] = x[i] + x[i + 8];
        const float a = eight[0] + eight[4], b = eight[1] + eight[5], c = eight[2] + eight[6], d = eight[3] + eight[7];
        const float want = (a + c) + (b + d);  // lanes 8 apart, then 4, 2, 1
        float alone = 0;
        sums.one(x, &alone);
        EXPECT_EQ(std::bit_cast<uint32_t>(out[r]), std::bit_cast<uint32_t>(want));
        EXPECT_EQ(std::bit_cast<uint32_t>(alone), std::bit_cast<uint32_t>(want));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, VecTest, ::testing::ValuesIn(available_isas()), [](const auto& c) { return c.param; });

}  // namespace
}  // namespace nibble::cpu
