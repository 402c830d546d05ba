// Contract of ops/kda_gate.h: every kernel of this machine, every cell, against fp64; where the gate saturates.
#include "ops/kda_gate.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

using certify::Random;
using certify::Workspace;

// T = 3, A = 2, K = 5.
KdaGate problem(Workspace& memory, uint64_t seed) {
  Random random(seed);
  return {.gate = memory.rows(3, 10, DType::kF32, random.normals(30)),
          .beta = memory.rows(3, 2, DType::kF32, random.normals(6)),
          .a_log = memory.vector(random.normals(2)),
          .dt_bias = memory.vector(random.normals(10)),
          .lower_bound = -5.0f,
          .decay = memory.poisoned_matrix<float>(3, 10),
          .beta_out = memory.poisoned_matrix<float>(3, 2)};
}

class KdaGateTest : public testing::OnEveryDevice {};

TEST_P(KdaGateTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::kda_gate(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

// Whatever the gate, a decay that kda_rows can take: within [-5, 0].
TEST_P(KdaGateTest, SaturatesAtBothEnds) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> gates = {-kInf, -1e30f, -200.0f, -90.0f, 0.0f, 40.0f, 200.0f, 1e30f, kInf};
  Workspace memory(device());
  const KdaGate args = {.gate = memory.rows(1, 9, DType::kF32, gates),
                        .beta = memory.rows(1, 1, DType::kF32, std::vector<float>{100.0f}),
                        .a_log = memory.vector(std::vector<float>{1.0f}),
                        .dt_bias = memory.vector(std::vector<float>(9, 0.0f)),
                        .lower_bound = -5.0f,
                        .decay = memory.poisoned_matrix<float>(1, 9),
                        .beta_out = memory.poisoned_matrix<float>(1, 1)};
  kda_gate(device(), args);
  const std::vector<float> decay = memory.read(args.decay);
  const std::vector<float> expected = {0, 0, 0, 0, -2.5f, -5, -5, -5, -5};
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(decay[i], expected[i]) << gates[i];
  EXPECT_EQ(memory.read(args.beta_out)[0], 1.0f);
}

TEST_P(KdaGateTest, RefusesBeforeWriting) {
  Workspace memory(device());
  const KdaGate good = problem(memory, 2);
  std::vector<KdaGate> bad(8, good);
  bad[0].lower_bound = 0.0f;
  bad[1].lower_bound = -5.001f;
  bad[2].lower_bound = std::nanf("");
  bad[3].dt_bias.size = 9;
  bad[4].a_log.size = 3;
  bad[5].decay.cols = 9;
  bad[6].beta_out.rows = 2;
  bad[7].beta.dtype = DType::kBf16;
  for (size_t i = 0; i < bad.size(); ++i) EXPECT_THROW(kda_gate(device(), bad[i]), ContractError) << i;
  for (const float g : memory.read(good.decay)) EXPECT_TRUE(std::isnan(g));
  for (const float b : memory.read(good.beta_out)) EXPECT_TRUE(std::isnan(b));
}

NIBBLE_ON_EVERY_DEVICE(KdaGateTest);

// Kimi Linear's gate, -e^a_log softplus(gate + dt_bias), clamped or not, is another function.
TEST(KdaGateControl, SoftplusIsCaught) {
  Workspace memory;
  const KdaGate args = problem(memory, 3);
  reference::kda_gate(args);
  const std::vector<float> gate = memory.read(args.gate);
  std::vector<float> wrong;
  for (size_t i = 0; i < 30; ++i) {
    const float softplus = std::log1p(std::exp(gate[i] + args.dt_bias.data[i % 10]));
    wrong.push_back(std::max(-5.0f, -std::exp(args.a_log.data[i % 10 / 5]) * softplus));
  }
  EXPECT_GT(certify::row_error(wrong, memory.read(args.decay), 10), 0.1);
}

TEST(KdaGateControl, NeighboursRateIsCaught) {
  Workspace memory;
  const KdaGate right = problem(memory, 4);
  KdaGate wrong = right;
  wrong.a_log = memory.vector(std::vector<float>{right.a_log.data[1], right.a_log.data[0]});
  wrong.decay = memory.poisoned_matrix<float>(3, 10);
  reference::kda_gate(right);
  reference::kda_gate(wrong);
  EXPECT_GT(certify::row_error(memory.read(wrong.decay), memory.read(right.decay), 10), 0.01);
}

}  // namespace
}  // namespace nibble::ops
