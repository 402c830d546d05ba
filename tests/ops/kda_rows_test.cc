// Contract of ops/kda_rows.h: every kernel of this machine, every cell, against fp64.
#include "ops/kda_rows.h"

#include "ops/certify/entries.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

class KdaRowsTest : public testing::OnEveryDevice {};

TEST_P(KdaRowsTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::kda_rows(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

NIBBLE_ON_EVERY_DEVICE(KdaRowsTest);

}  // namespace
}  // namespace nibble::ops
