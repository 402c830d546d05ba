// Every op on the GPU against its fp64 reference, over the same cells as on the CPU, and the figures.
#include "ops/certify/certify.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "testing/test_device.h"

namespace nibble::ops::certify {
namespace {

class CertifyTest : public ::testing::TestWithParam<Entry> {};

TEST_P(CertifyTest, EveryCell) {
  const auto device = nibble::testing::open_device_under_test(1);
  const Report report = GetParam().certify(*device);
  double used = 0;
  const CellResult* worst = nullptr;
  for (const CellResult& cell : report.cells) {
    EXPECT_TRUE(cell.passed()) << cell.cell << ": " << cell.error << ", budget " << cell.budget;
    const double share = cell.error == 0 ? 0 : cell.error / cell.budget;
    if (worst == nullptr || !(share <= used)) used = share, worst = &cell;
  }
  ASSERT_NE(worst, nullptr);
  std::printf("%-18s %3zu cells, worst %.3g of %.3g %s (%s)\n", report.op, report.cells.size(), worst->error,
              worst->budget, report.measure, worst->cell.c_str());
}

INSTANTIATE_TEST_SUITE_P(Ops, CertifyTest, ::testing::ValuesIn(catalog().begin(), catalog().end()),
                         [](const auto& entry) { return std::string(entry.param.name); });

}  // namespace
}  // namespace nibble::ops::certify
