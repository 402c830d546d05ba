// Contract of ops/moe_experts.h: every kernel of this machine, every cell, against fp64.
#include "ops/moe_experts.h"

#include "base/error.h"
#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

using certify::Random;
using certify::Workspace;

class MoeExpertsTest : public testing::OnEveryDevice {};

TEST_P(MoeExpertsTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::moe_experts(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

NIBBLE_ON_EVERY_DEVICE(MoeExpertsTest);

}  // namespace
}  // namespace nibble::ops
