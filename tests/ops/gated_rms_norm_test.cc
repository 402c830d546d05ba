// Contract of ops/gated_rms_norm.h: every kernel of this machine, every cell, against fp64.
#include "ops/gated_rms_norm.h"

#include "ops/certify/entries.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

class GatedRmsNormTest : public testing::OnEveryDevice {};

TEST_P(GatedRmsNormTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::gated_rms_norm(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

NIBBLE_ON_EVERY_DEVICE(GatedRmsNormTest);

}  // namespace
}  // namespace nibble::ops
