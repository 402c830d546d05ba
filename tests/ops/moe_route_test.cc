// Contract of ops/moe_route.h: every kernel of this machine, every cell, against fp64.
#include "ops/moe_route.h"

#include "base/error.h"
#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

using certify::Random;
using certify::Workspace;

class MoeRouteTest : public testing::OnEveryDevice {};

TEST_P(MoeRouteTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::moe_route(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

NIBBLE_ON_EVERY_DEVICE(MoeRouteTest);

}  // namespace
}  // namespace nibble::ops
