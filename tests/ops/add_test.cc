// Contract of ops/add.h: every kernel of this machine, every cell, against fp64.
#include "ops/add.h"

#include "base/error.h"
#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

using certify::Random;
using certify::Workspace;

class AddTest : public testing::OnEveryDevice {};

TEST_P(AddTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::add(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

TEST_P(AddTest, WritesOverEitherInput) {
  Random random(2);
  const std::vector<float> a = random.normals(5 * 33), b = random.normals(5 * 33);
  const auto run = [&](int over) {
    Workspace memory(device());
    const Rows x = memory.rows(5, 33, DType::kF32, a), y = memory.rows(5, 33, DType::kF32, b);
    const Rows out = over == 0 ? memory.poisoned_rows(5, 33, DType::kF32) : over == 1 ? x : y;
    add(device(), {.a = x, .b = y, .out = out});
    return memory.read(out);
  };
  EXPECT_EQ(run(1), run(0));
  EXPECT_EQ(run(2), run(0));
}

TEST_P(AddTest, RefusesBeforeWriting) {
  Workspace memory(device());
  Random random(3);
  Add args = {memory.rows(2, 32, DType::kF32, random.normals(64)), memory.rows(1, 32, DType::kF32, random.normals(32)),
              memory.poisoned_rows(2, 32, DType::kF32)};
  EXPECT_THROW(add(device(), args), ContractError);  // one row of b would be a broadcast: there is none
  args.b = args.a;
  args.b.dtype = DType::kBf16;
  EXPECT_THROW(add(device(), args), ContractError);
  for (const float y : memory.read(args.out)) EXPECT_TRUE(std::isnan(y));
}

NIBBLE_ON_EVERY_DEVICE(AddTest);

}  // namespace
}  // namespace nibble::ops
