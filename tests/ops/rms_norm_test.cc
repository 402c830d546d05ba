// Contract of ops/rms_norm.h: every kernel of this machine, every cell, against fp64.
#include "ops/rms_norm.h"

#include "base/error.h"
#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

using certify::Random;
using certify::Workspace;

class RmsNormTest : public testing::OnEveryDevice {};

TEST_P(RmsNormTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::rms_norm(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

TEST_P(RmsNormTest, RowDoesNotDependOnItsNeighbours) {
  Random random(2);
  const std::vector<float> x = random.normals(9 * 100), weight = random.normals(100);
  Workspace memory(device());
  const auto run = [&](std::span<const float> values) {
    const auto rows = static_cast<int64_t>(values.size()) / 100;
    const RmsNorm args = {memory.rows(rows, 100, DType::kF32, values), memory.vector(weight), 1e-5f,
                          memory.poisoned_rows(rows, 100, DType::kF32)};
    rms_norm(device(), args);
    return memory.read(args.out);
  };
  const std::vector<float> all = run(x);
  for (size_t t = 0; t < 9; ++t) {
    const std::vector<float> one = run(std::span(x).subspan(t * 100, 100));
    EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + static_cast<int64_t>(t) * 100)) << "row " << t;
  }
}

TEST_P(RmsNormTest, RefusesBeforeWriting) {
  Workspace memory(device());
  Random random(3);
  RmsNorm args = {memory.rows(2, 32, DType::kF32, random.normals(64)), memory.vector(random.normals(31)), 1e-5f,
                  memory.poisoned_rows(2, 32, DType::kF32)};
  EXPECT_THROW(rms_norm(device(), args), ContractError);
  for (const float y : memory.read(args.out)) EXPECT_TRUE(std::isnan(y));
}

TEST(RmsNormControl, MissingEpsilonIsCaught) {
  Workspace memory;
  const std::vector<float> tiny(64, 1e-3f), ones(64, 1.0f);
  RmsNorm right = {memory.rows(1, 64, DType::kF32, tiny), memory.vector(ones), 1e-5f,
                   memory.poisoned_rows(1, 64, DType::kF32)};
  RmsNorm wrong = right;
  wrong.eps = 0.0f;
  wrong.out = memory.poisoned_rows(1, 64, DType::kF32);
  reference::rms_norm(right);
  reference::rms_norm(wrong);
  EXPECT_GT(certify::row_error(memory.read(wrong.out), memory.read(right.out), 64), 0.1);
}

NIBBLE_ON_EVERY_DEVICE(RmsNormTest);

}  // namespace
}  // namespace nibble::ops
