// Contract of ops/causal_conv_silu.h: every kernel of this machine, every cell, against fp64.
#include "ops/causal_conv_silu.h"

#include "ops/certify/entries.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

class CausalConvSiluTest : public testing::OnEveryDevice {};

TEST_P(CausalConvSiluTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::causal_conv_silu(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

NIBBLE_ON_EVERY_DEVICE(CausalConvSiluTest);

}  // namespace
}  // namespace nibble::ops
