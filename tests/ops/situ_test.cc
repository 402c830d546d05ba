// Contract of ops/situ.h: every kernel of this machine, every cell, against fp64.
#include "ops/situ.h"

#include "base/error.h"
#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

using certify::Random;
using certify::Workspace;

class SituTest : public testing::OnEveryDevice {};

TEST_P(SituTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::situ(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

NIBBLE_ON_EVERY_DEVICE(SituTest);

}  // namespace
}  // namespace nibble::ops
