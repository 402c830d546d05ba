// Contract of ops/embedding.h: every kernel of this machine, every cell, against fp64.
#include "ops/embedding.h"

#include "base/error.h"
#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

using certify::Random;
using certify::Workspace;

class EmbeddingTest : public testing::OnEveryDevice {};

TEST_P(EmbeddingTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::embedding(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

NIBBLE_ON_EVERY_DEVICE(EmbeddingTest);

}  // namespace
}  // namespace nibble::ops
