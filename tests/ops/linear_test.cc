// Contract of ops/linear.h: every kernel of this machine, every cell, against fp64.
#include "ops/linear.h"

#include "base/error.h"
#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

using certify::Random;
using certify::Workspace;

class LinearTest : public testing::OnEveryDevice {};

TEST_P(LinearTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::linear(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

NIBBLE_ON_EVERY_DEVICE(LinearTest);

}  // namespace
}  // namespace nibble::ops
