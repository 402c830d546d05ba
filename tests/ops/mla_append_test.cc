// Contract of ops/mla_append.h: every kernel of this machine, every cell, against fp64.
#include "ops/mla_append.h"

#include "base/error.h"
#include "ops/certify/entries.h"
#include "ops/certify/steps.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

using certify::Random;
using certify::Span;
using certify::Step;
using certify::Workspace;

class MlaAppendTest : public testing::OnEveryDevice {};

TEST_P(MlaAppendTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::mla_append(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

TEST_P(MlaAppendTest, WritesItsRowsAndNoOther) {
  Workspace memory(device());
  Random random(2);
  const std::vector<Span> spans = {{62, 4}, {0, 0}, {128, 1}};
  const Step step(spans, 3);
  const std::vector<float> latent = random.normals(5 * 3), key = random.normals(5 * 2);
  const MlaAppend args = {memory.rows(5, 3, DType::kF32, latent), memory.rows(5, 2, DType::kF32, key),
                          step.place(memory), memory.poisoned_rows(step.pages() * kPageTokens, 5, DType::kF32)};
  mla_append(device(), args);
  const std::vector<float> pool = memory.read(args.pool);
  std::vector<bool> written(pool.size() / 5);
  size_t t = 0;
  for (int64_t s = 0; s < 3; ++s) {
    for (int32_t i = 0; i < spans[static_cast<size_t>(s)].rows; ++i, ++t) {
      const auto at = static_cast<size_t>(step.pool_row(s, spans[static_cast<size_t>(s)].position + i));
      written[at] = true;
      for (size_t k = 0; k < 3; ++k) EXPECT_EQ(pool[at * 5 + k], latent[t * 3 + k]);
      for (size_t k = 0; k < 2; ++k) EXPECT_EQ(pool[at * 5 + 3 + k], key[t * 2 + k]);
    }
  }
  for (size_t i = 0; i < pool.size(); ++i) EXPECT_EQ(std::isnan(pool[i]), !written[i / 5]) << i;
}

TEST_P(MlaAppendTest, RefusesBeforeWriting) {
  Workspace memory(device());
  const Step step(std::vector<Span>{{0, 2}}, 1);
  MlaAppend args = {memory.rows(2, 3, DType::kF32, std::vector<float>(6)),
                    memory.rows(2, 2, DType::kF32, std::vector<float>(4)), step.place(memory),
                    memory.poisoned_rows(64, 6, DType::kF32)};
  EXPECT_THROW(mla_append(device(), args), ContractError);
  args.pool = memory.poisoned_rows(64, 5, DType::kBf16);
  EXPECT_THROW(mla_append(device(), args), ContractError);
  for (const float y : memory.read(args.pool)) EXPECT_TRUE(std::isnan(y));
}

NIBBLE_ON_EVERY_DEVICE(MlaAppendTest);

}  // namespace
}  // namespace nibble::ops
