// Contract of ops/select_rows.h: every kernel of this machine, every cell, against fp64.
#include "ops/select_rows.h"

#include "base/error.h"
#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

using certify::Workspace;

class SelectRowsTest : public testing::OnEveryDevice {};

TEST_P(SelectRowsTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::select_rows(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

TEST_P(SelectRowsTest, RowsOutOfRangeGiveZeros) {
  Workspace memory(device());
  const SelectRows args = {memory.rows(2, 1, DType::kF32, std::vector<float>{5, 7}),
                           memory.vector(std::vector<int32_t>{1, -1, 2, INT32_MAX, INT32_MIN, 0, 1}),
                           memory.poisoned_rows(7, 1, DType::kF32)};
  select_rows(device(), args);
  EXPECT_EQ(memory.read(args.out), (std::vector<float>{7, 0, 0, 0, 0, 5, 7}));
}

TEST_P(SelectRowsTest, RefusesBeforeWriting) {
  Workspace memory(device());
  const Rows x = memory.rows(2, 2, DType::kF32, std::vector<float>{1, 2, 3, 4});
  const View1<const int32_t> rows = memory.vector(std::vector<int32_t>{1, 0});
  const Rows out = memory.poisoned_rows(3, 2, DType::kF32);
  EXPECT_THROW(select_rows(device(), {x, rows, out}), ContractError);
  EXPECT_THROW(select_rows(device(), {x, rows, x}), ContractError);
  for (const float y : memory.read(out)) EXPECT_TRUE(std::isnan(y));
}

NIBBLE_ON_EVERY_DEVICE(SelectRowsTest);

}  // namespace
}  // namespace nibble::ops
