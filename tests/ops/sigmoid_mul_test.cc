// Contract of ops/sigmoid_mul.h: every kernel of this machine, every cell, against fp64.
#include "ops/sigmoid_mul.h"

#include "base/error.h"
#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

using certify::Random;
using certify::Workspace;

class SigmoidMulTest : public testing::OnEveryDevice {};

TEST_P(SigmoidMulTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::sigmoid_mul(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

TEST_P(SigmoidMulTest, SaturatesAndWritesOverX) {
  Workspace memory(device());
  const Rows x = memory.rows(1, 4, DType::kF32, std::vector<float>{3, 3, 3, 3});
  const Rows gate = memory.rows(1, 4, DType::kF32, std::vector<float>{1000, -1000, 0, -0.0f});
  sigmoid_mul(device(), {.x = x, .gate = gate, .out = x});
  EXPECT_EQ(memory.read(x), (std::vector<float>{3, 0, 1.5f, 1.5f}));
}

TEST_P(SigmoidMulTest, RefusesBeforeWriting) {
  Workspace memory(device());
  Random random(3);
  SigmoidMul args = {memory.rows(2, 32, DType::kF32, random.normals(64)),
                     memory.rows(2, 31, DType::kF32, random.normals(62)), memory.poisoned_rows(2, 32, DType::kF32)};
  EXPECT_THROW(sigmoid_mul(device(), args), ContractError);
  for (const float y : memory.read(args.out)) EXPECT_TRUE(std::isnan(y));
  args.gate = args.x, args.out = memory.rows(2, 32, DType::kF32, random.normals(64));
  args.gate.data = args.out.data;
  EXPECT_THROW(sigmoid_mul(device(), args), ContractError);  // out is the gate
}

// The published code lands the sigmoid before the product; a kernel that does not would drift by an ulp here and there.
TEST(SigmoidMulControl, MissingLandingOfTheSigmoidIsCaught) {
  Workspace memory;
  Random random(4);
  const std::vector<float> x = random.normals(4096), gate = random.normals(4096);
  const SigmoidMul right = {memory.rows(1, 4096, DType::kBf16, x), memory.rows(1, 4096, DType::kBf16, gate),
                            memory.poisoned_rows(1, 4096, DType::kBf16)};
  const SigmoidMul wide = {memory.rows(1, 4096, DType::kF32, memory.read(right.x)),
                           memory.rows(1, 4096, DType::kF32, memory.read(right.gate)),
                           memory.poisoned_rows(1, 4096, DType::kF32)};
  reference::sigmoid_mul(right);
  reference::sigmoid_mul(wide);
  const std::vector<float> landed_twice = memory.read(right.out);
  const std::vector<float> landed_once = memory.read(memory.rows(1, 4096, DType::kBf16, memory.read(wide.out)));
  int64_t differ = 0;
  for (size_t i = 0; i < landed_once.size(); ++i) differ += landed_once[i] != landed_twice[i];
  EXPECT_GT(differ, 400);
}

NIBBLE_ON_EVERY_DEVICE(SigmoidMulTest);

}  // namespace
}  // namespace nibble::ops
