// Contract of ops/kda_gate.h: every kernel of this machine, every cell, against fp64.
#include "ops/kda_gate.h"

#include "ops/certify/entries.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

class KdaGateTest : public testing::OnEveryDevice {};

TEST_P(KdaGateTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::kda_gate(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

NIBBLE_ON_EVERY_DEVICE(KdaGateTest);

}  // namespace
}  // namespace nibble::ops
