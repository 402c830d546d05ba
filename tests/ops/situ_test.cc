// Contract of ops/situ.h: every kernel of this machine, every cell, against fp64.
#include "ops/situ.h"

#include <limits>

#include "base/error.h"
#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

using certify::Random;
using certify::Workspace;

class SituTest : public testing::OnEveryDevice {};

Situ one_row(Workspace& memory, const std::vector<float>& gate, const std::vector<float>& up) {
  const auto n = static_cast<int64_t>(gate.size());
  return {.gate = memory.rows(1, n, DType::kF32, gate),
          .up = memory.rows(1, n, DType::kF32, up),
          .beta = 4.0f,
          .linear_beta = 25.0f,
          .out = memory.poisoned_rows(1, n, DType::kF32)};
}

TEST_P(SituTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::situ(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

TEST_P(SituTest, KnownValues) {  // docs/model.md 8.1
  Workspace memory(device());
  const Situ args = one_row(memory, {1.0f, -3.0f, 8.0f}, {1.0f, 10.0f, -40.0f});
  situ(device(), args);
  const std::vector<float> y = memory.read(args.out);
  EXPECT_NEAR(y[0], 0.7158178, 1e-6);
  EXPECT_NEAR(y[1], -1.144501, 1e-6);
  EXPECT_NEAR(y[2], -88.8215943, 1e-4);
}

TEST_P(SituTest, ExtremesAreCappedAndNaNStays) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  Workspace memory(device());
  const Situ args = one_row(memory, {inf, -inf, inf, nan, 1.0f}, {inf, inf, -1e30f, 1.0f, nan});
  situ(device(), args);
  const std::vector<float> y = memory.read(args.out);
  EXPECT_EQ(y[0], 100.0f);
  EXPECT_EQ(y[1], 0.0f);
  EXPECT_EQ(y[2], -100.0f);
  EXPECT_TRUE(std::isnan(y[3]) && std::isnan(y[4]));
}

TEST_P(SituTest, InPlaceGivesTheSameBits) {
  Random random(2);
  const std::vector<float> gate = random.normals(100), up = random.normals(100);
  Workspace memory(device());
  const Situ apart = one_row(memory, gate, up);
  situ(device(), apart);
  for (const bool over_gate : {true, false}) {
    Workspace again(device());
    Situ args = one_row(again, gate, up);
    args.out.data = const_cast<void*>(over_gate ? args.gate.data : args.up.data);
    situ(device(), args);
    EXPECT_EQ(again.read(args.out), memory.read(apart.out));
  }
}

TEST_P(SituTest, RefusesBeforeWriting) {
  Workspace memory(device());
  Random random(3);
  const Situ good = one_row(memory, random.normals(40), random.normals(40));
  Situ narrow = good, mixed = good, flat = good, partial = good;
  narrow.up.cols = 39;
  mixed.up.dtype = DType::kBf16;
  flat.linear_beta = 0.0f;
  partial.gate.data = static_cast<const float*>(good.out.data) + 1;
  for (const Situ& args : {narrow, mixed, flat, partial}) EXPECT_THROW(situ(device(), args), ContractError);
  for (const float y : memory.read(good.out)) EXPECT_TRUE(std::isnan(y));
}

TEST(SituControl, GateAndUpSwappedIsCaught) {
  Workspace memory;
  Random random(4);
  const Situ right = one_row(memory, random.normals(64, 3.0), random.normals(64, 3.0));
  Situ wrong = right;
  std::swap(wrong.gate, wrong.up);
  wrong.out = memory.poisoned_rows(1, 64, DType::kF32);
  reference::situ(right);
  reference::situ(wrong);
  EXPECT_GT(certify::row_error(memory.read(wrong.out), memory.read(right.out), 64), 0.1);
}

NIBBLE_ON_EVERY_DEVICE(SituTest);

}  // namespace
}  // namespace nibble::ops
