// Accuracy of cpu/kernels/math.h on every instruction set of this machine, against the C library in fp64.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "cpu/math_hooks.h"

namespace nibble::cpu {
namespace {

using Function = void (*)(const float*, float*);
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kSmallestNormal = 0x1p-126;

float one(Function f, float x) {
  std::array<float, 16> in, out;
  in.fill(x);
  f(in.data(), out.data());
  for (const float y : out) EXPECT_EQ(std::bit_cast<uint32_t>(y), std::bit_cast<uint32_t>(out[0])) << "lanes differ";
  return out[0];
}

// The worst error over [low, high] in ulps of the true value, where that is a normal float: steps of equal size, and
// every 4,001st bit pattern, which also reaches the small ones.
class Sweep {
 public:
  Sweep(Function f, double (*truth)(double), float low, float high) : f_(f), truth_(truth) {
    for (double x = low; x <= static_cast<double>(high);
         x += (static_cast<double>(high) - static_cast<double>(low)) / 4e5) {
      add(static_cast<float>(x));
    }
    for (uint32_t bits = 0; bits < 0x7F800000u; bits += 4001) {
      const float x = std::bit_cast<float>(bits);
      if (x <= high) add(x);
      if (-x >= low) add(-x);
    }
  }
  double worst() const { return worst_; }
  float at() const { return at_; }

 private:
  void add(float x) {
    in_[count_++] = x;
    if (count_ < in_.size()) return;
    count_ = 0;
    f_(in_.data(), out_.data());
    for (size_t i = 0; i < in_.size(); ++i) {
      const double want = truth_(static_cast<double>(in_[i])), size = std::fabs(want);
      if (size < kSmallestNormal) continue;
      const double ulp = std::ldexp(1.0, std::ilogb(size) - 23);
      const double error = std::fabs(static_cast<double>(out_[i]) - want) / ulp;
      if (!(error <= worst_)) worst_ = error, at_ = in_[i];
    }
  }

  Function f_;
  double (*truth_)(double);
  std::array<float, 16> in_ = {}, out_ = {};
  size_t count_ = 0;
  double worst_ = 0;
  float at_ = 0;
};

class MathTest : public ::testing::TestWithParam<std::string> {
 protected:
  const MathHooks& math() { return math_hooks(GetParam()); }
};

// Bounds: the worst of dense sweeps (5e7 points) was 1.01, 2.48 and 1.26 ulp.
TEST_P(MathTest, ExpIsWithinAnUlp) {
  const Sweep sweep(
      math().exp, [](double x) { return std::exp(x); }, -87.33f, 88.72f);
  EXPECT_LE(sweep.worst(), 1.02) << "at " << sweep.at();
}
TEST_P(MathTest, SigmoidIsWithinThreeUlp) {
  const Sweep sweep(
      math().sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -87.0f, 40.0f);
  EXPECT_LE(sweep.worst(), 3.0) << "at " << sweep.at();
}
TEST_P(MathTest, TanhIsWithinTwoUlp) {
  const Sweep sweep(
      math().tanh, [](double x) { return std::tanh(x); }, -20.0f, 20.0f);
  EXPECT_LE(sweep.worst(), 2.0) << "at " << sweep.at();
}

TEST_P(MathTest, ExpAtTheEdges) {
  const Function f = math().exp;
  EXPECT_EQ(one(f, 0.0f), 1.0f);
  EXPECT_EQ(one(f, -0.0f), 1.0f);
  EXPECT_EQ(one(f, 1e-40f), 1.0f);
  EXPECT_EQ(one(f, -1e-40f), 1.0f);
  EXPECT_EQ(one(f, kInfinity), kInfinity);
  EXPECT_EQ(one(f, -kInfinity), 0.0f);
  EXPECT_TRUE(std::isnan(one(f, kNan)) && std::isnan(one(f, -kNan)));
  EXPECT_TRUE(std::isfinite(one(f, 88.7228f)));
  EXPECT_EQ(one(f, 88.7229f), kInfinity);
  EXPECT_EQ(one(f, 3e38f), kInfinity);
  EXPECT_GT(one(f, -87.336f), 0.0f);
  EXPECT_EQ(one(f, -87.34f), 0.0f);  // below 2^-126: flushed
  EXPECT_EQ(one(f, -3e38f), 0.0f);
}

TEST_P(MathTest, SigmoidAtTheEdges) {
  const Function f = math().sigmoid;
  EXPECT_EQ(one(f, 0.0f), 0.5f);
  EXPECT_EQ(one(f, 1e-40f), 0.5f);
  EXPECT_EQ(one(f, kInfinity), 1.0f);
  EXPECT_EQ(one(f, 100.0f), 1.0f);
  EXPECT_EQ(one(f, -kInfinity), 0.0f);
  EXPECT_EQ(one(f, -100.0f), 0.0f);
  EXPECT_TRUE(std::isnan(one(f, kNan)));
}

TEST_P(MathTest, TanhAtTheEdges) {
  const Function f = math().tanh;
  EXPECT_TRUE(one(f, -0.0f) == 0.0f && std::signbit(one(f, -0.0f)) && !std::signbit(one(f, 0.0f)));
  EXPECT_EQ(one(f, 1e-40f), 1e-40f);
  EXPECT_EQ(one(f, -1e-30f), -1e-30f);
  EXPECT_EQ(one(f, kInfinity), 1.0f);
  EXPECT_EQ(one(f, -kInfinity), -1.0f);
  EXPECT_EQ(one(f, 3e38f), 1.0f);
  EXPECT_EQ(one(f, -10.0f), -one(f, 10.0f));
  EXPECT_TRUE(std::isnan(one(f, kNan)));
}

INSTANTIATE_TEST_SUITE_P(Isa, MathTest, ::testing::ValuesIn(available_isas()), [](const auto& c) { return c.param; });

}  // namespace
}  // namespace nibble::cpu
