#include "base/multiply_peak.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nibble {
namespace {

// How much it is depends on the machine; that a figure comes of any number of threads does not.
TEST(MultiplyPeak, ComesOfAnyNumberOfThreads) {
  for (const int threads : {1, 2, 3}) {
    for (const Operands operands : {Operands::kF32, Operands::kBf16}) {
      const MultiplyPeak peak = measure_multiply_peak(threads, operands);
      EXPECT_TRUE(std::isfinite(peak.gflop_per_s) && peak.gflop_per_s > 0.0);
      EXPECT_EQ(peak.threads, threads);
      EXPECT_FALSE(peak.instruction.empty());
    }
  }
}

}  // namespace
}  // namespace nibble
