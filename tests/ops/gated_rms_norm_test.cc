// Contract of ops/gated_rms_norm.h: every kernel of this machine, every cell, against fp64.
#include "ops/gated_rms_norm.h"

#include <cmath>

#include "base/error.h"
#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

using certify::Random;
using certify::Workspace;

// T = 4, A = 3, V = 20.
GatedRmsNorm problem(Workspace& memory, uint64_t seed, DType dtype = DType::kF32) {
  Random random(seed);
  return {.x = memory.rows(4, 60, dtype, random.normals(240)),
          .gate = memory.rows(4, 60, dtype, random.normals(240)),
          .weight = memory.vector(random.normals(20)),
          .eps = 1e-5f,
          .out = memory.poisoned_rows(4, 60, dtype)};
}

class GatedRmsNormTest : public testing::OnEveryDevice {};

TEST_P(GatedRmsNormTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::gated_rms_norm(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

TEST_P(GatedRmsNormTest, InPlaceGivesTheSameBits) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    Workspace memory(device());
    const GatedRmsNorm apart = problem(memory, 2, dtype);
    GatedRmsNorm in_place = problem(memory, 2, dtype);
    in_place.out = {const_cast<void*>(in_place.x.data), dtype, 4, 60, 60};
    gated_rms_norm(device(), apart);
    gated_rms_norm(device(), in_place);
    EXPECT_EQ(memory.read(in_place.out), memory.read(apart.out));
  }
}

TEST_P(GatedRmsNormTest, RowDoesNotDependOnItsNeighbours) {
  Workspace memory(device());
  const GatedRmsNorm all = problem(memory, 3);
  gated_rms_norm(device(), all);
  const std::vector<float> x = memory.read(all.x), gate = memory.read(all.gate), out = memory.read(all.out);
  for (size_t t = 0; t < 4; ++t) {
    GatedRmsNorm one = all;
    one.x = memory.rows(1, 60, DType::kF32, std::span(x).subspan(t * 60, 60));
    one.gate = memory.rows(1, 60, DType::kF32, std::span(gate).subspan(t * 60, 60));
    one.out = memory.poisoned_rows(1, 60, DType::kF32);
    gated_rms_norm(device(), one);
    const std::vector<float> row = memory.read(one.out);
    EXPECT_TRUE(std::equal(row.begin(), row.end(), out.begin() + static_cast<int64_t>(t) * 60)) << "row " << t;
  }
}

TEST_P(GatedRmsNormTest, RefusesBeforeWriting) {
  Workspace memory(device());
  const GatedRmsNorm good = problem(memory, 4);
  std::vector<GatedRmsNorm> bad(5, good);
  bad[0].weight.size = 19;
  bad[1].gate.cols = 40;
  bad[2].gate.dtype = DType::kBf16;
  bad[3].out.data = const_cast<void*>(good.gate.data);
  bad[4].out.data = static_cast<float*>(const_cast<void*>(good.x.data)) + 1;
  for (size_t i = 0; i < bad.size(); ++i) EXPECT_THROW(gated_rms_norm(device(), bad[i]), ContractError) << i;
  for (const float y : memory.read(good.out)) EXPECT_TRUE(std::isnan(y));
}

NIBBLE_ON_EVERY_DEVICE(GatedRmsNormTest);

// What the op would give with another gate, or with one mean for all heads.
enum class Fault { kNone, kSilu, kNoGate, kWholeRow };
std::vector<float> by_hand(Workspace& memory, const GatedRmsNorm& a, Fault fault) {
  const std::vector<float> x = memory.read(a.x), gate = memory.read(a.gate);
  std::vector<float> out;
  const size_t span = fault == Fault::kWholeRow ? 60 : 20;
  for (size_t i = 0; i < x.size(); ++i) {
    double squares = 0;
    for (size_t j = i / span * span; j < (i / span + 1) * span; ++j) squares += std::pow(static_cast<double>(x[j]), 2);
    const double z = static_cast<double>(gate[i]), sigmoid = 1 / (1 + std::exp(-z));
    const double factor = fault == Fault::kNoGate ? 1 : fault == Fault::kSilu ? z * sigmoid : sigmoid;
    const double scale =
        static_cast<double>(a.weight.data[i % 20]) / std::sqrt(squares / static_cast<double>(span) + 1e-5);
    out.push_back(static_cast<float>(static_cast<double>(x[i]) * scale * factor));
  }
  return out;
}

TEST(GatedRmsNormControl, PlantedFaultsAreCaught) {
  Workspace memory;
  const GatedRmsNorm args = problem(memory, 5);
  reference::gated_rms_norm(args);
  const std::vector<float> right = memory.read(args.out);
  EXPECT_LE(certify::row_error(by_hand(memory, args, Fault::kNone), right, 20), 1e-6);
  for (const Fault fault : {Fault::kSilu, Fault::kNoGate, Fault::kWholeRow}) {
    EXPECT_GT(certify::row_error(by_hand(memory, args, fault), right, 20), 0.1) << static_cast<int>(fault);
  }
}

}  // namespace
}  // namespace nibble::ops
