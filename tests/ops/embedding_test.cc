// Contract of ops/embedding.h: every kernel of this machine, every cell, against the reference.
#include "ops/embedding.h"

#include "base/error.h"
#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

using certify::Random;
using certify::Workspace;
using fp4::WeightFormat;

class EmbeddingTest : public testing::OnEveryDevice {};

TEST_P(EmbeddingTest, AgreesWithReference) {
  for (const certify::CellResult& cell : certify::embedding(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

TEST_P(EmbeddingTest, UnknownIdsGiveZerosWithoutReadingTheTable) {
  Workspace memory(device());
  const std::vector<int32_t> tokens = {-1, 10, 2147483647, -2147483647};
  const Embedding args = {
      memory.vector(tokens), {WeightFormat::kBf16, 10, 33}, memory.poisoned_rows(4, 33, DType::kF32)};
  embedding(device(), args);
  EXPECT_EQ(memory.read(args.out), std::vector<float>(4 * 33, 0.0f));
}

TEST_P(EmbeddingTest, RefusesBeforeWriting) {
  Workspace memory(device());
  Random random(1);
  const std::vector<int32_t> tokens = {0, 1};
  const Embedding good = {memory.vector(tokens), memory.weight(WeightFormat::kF32, 3, 32, random, 1.0),
                          memory.poisoned_rows(2, 32, DType::kF32)};
  Embedding packed = good, narrow = good, tall = good;
  packed.table = memory.weight(WeightFormat::kMxfp4, 3, 32, random, 1.0);
  narrow.out.cols = 31;
  tall.tokens.size = 1;
  for (const Embedding& args : {packed, narrow, tall}) EXPECT_THROW(embedding(device(), args), ContractError);
  for (const float y : memory.read(good.out)) EXPECT_TRUE(std::isnan(y));
}

NIBBLE_ON_EVERY_DEVICE(EmbeddingTest);

}  // namespace
}  // namespace nibble::ops
