// Contract of ops/attn_res_mix.h: every kernel of this machine, every cell, against fp64.
#include "ops/attn_res_mix.h"

#include "base/error.h"
#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

using certify::Random;
using certify::Workspace;

// n sources of T rows, the values of source i and row t in a fixed place of `values` whatever T is.
AttnResMix problem(Workspace& memory, int64_t sources, int64_t rows, int64_t cols, std::span<const float> values,
                   DType dtype = DType::kF32) {
  Random random(7);
  return {.sources = memory.rows(sources * rows, cols, dtype, values),
          .norm = memory.vector(random.normals(cols)),
          .proj = memory.vector(random.normals(cols, 0.2)),
          .eps = 1e-5f,
          .out = memory.poisoned_rows(rows, cols, dtype)};
}

class AttnResMixTest : public testing::OnEveryDevice {};

TEST_P(AttnResMixTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::attn_res_mix(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

TEST_P(AttnResMixTest, OneSourceIsTheIdentity) {
  Workspace memory(device());
  Random random(2);
  const std::vector<float> x = random.normals(3 * 50, 100.0);
  const AttnResMix args = problem(memory, 1, 3, 50, x);
  attn_res_mix(device(), args);
  EXPECT_EQ(memory.read(args.out), x);
}

TEST_P(AttnResMixTest, RowDoesNotDependOnItsNeighbours) {
  Workspace memory(device());
  Random random(3);
  constexpr size_t kSources = 5, kRows = 7, kCols = 100;
  const std::vector<float> x = random.normals(kSources * kRows * kCols);
  const AttnResMix all = problem(memory, kSources, kRows, kCols, x);
  attn_res_mix(device(), all);
  const std::vector<float> together = memory.read(all.out);
  for (size_t t = 0; t < kRows; ++t) {
    std::vector<float> own;
    for (size_t i = 0; i < kSources; ++i) {
      const auto from = x.begin() + static_cast<int64_t>((i * kRows + t) * kCols);
      own.insert(own.end(), from, from + kCols);
    }
    const AttnResMix one = problem(memory, kSources, 1, kCols, own);
    attn_res_mix(device(), one);
    const std::vector<float> alone = memory.read(one.out);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + static_cast<int64_t>(t * kCols))) << t;
  }
}

TEST_P(AttnResMixTest, RefusesBeforeWriting) {
  Workspace memory(device());
  const std::vector<float> x(65 * 2 * 8);
  AttnResMix args = problem(memory, 65, 2, 8, x);
  EXPECT_THROW(attn_res_mix(device(), args), ContractError);  // too many sources
  args.sources.rows = 3;
  EXPECT_THROW(attn_res_mix(device(), args), ContractError);  // not a multiple of T
  args.sources.rows = 4, args.proj.size = 7;
  EXPECT_THROW(attn_res_mix(device(), args), ContractError);
  for (const float y : memory.read(args.out)) EXPECT_TRUE(std::isnan(y));
}

// Mixing the normalised sources is the plausible mistake: directions are right, sizes are not.
TEST(AttnResMixControl, MixOfNormalisedSourcesIsCaught) {
  Workspace memory;
  Random random(4);
  std::vector<float> x = random.normals(3 * 2 * 64, 3.0);
  const AttnResMix right = problem(memory, 3, 2, 64, x);
  reference::attn_res_mix(right);
  for (size_t row = 0; row < 6; ++row) {
    double squares = 0;
    for (size_t d = 0; d < 64; ++d) squares += std::pow(static_cast<double>(x[row * 64 + d]), 2);
    for (size_t d = 0; d < 64; ++d) x[row * 64 + d] /= static_cast<float>(std::sqrt(squares / 64));
  }
  const AttnResMix wrong = problem(memory, 3, 2, 64, x);  // scores are the same, for normalising twice changes nothing
  reference::attn_res_mix(wrong);
  EXPECT_GT(certify::row_error(memory.read(wrong.out), memory.read(right.out), 64), 0.3);
}

NIBBLE_ON_EVERY_DEVICE(AttnResMixTest);

}  // namespace
}  // namespace nibble::ops
