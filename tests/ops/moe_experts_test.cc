// Contract of ops/moe_experts.h: every kernel of this machine, every cell, against fp64; and the same bits for any
// number of rows and threads.
#include "ops/moe_experts.h"

#include "base/error.h"
#include "cpu/cpu_device.h"
#include "cpu/isa.h"
#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

using certify::Random;
using certify::Workspace;
using fp4::WeightFormat;

struct Shape {
  int64_t experts, top_k, latent, width;
  WeightFormat format;
  DType dtype;
};
constexpr Shape kSmall = {6, 2, 64, 96, WeightFormat::kMxfp4, DType::kBf16};

ExpertBank bank(Workspace& memory, const Shape& s, int64_t rows, int64_t cols, Random& random) {
  std::vector<WeightMatrix> experts;
  for (int64_t e = 0; e < s.experts; ++e) experts.push_back(memory.weight(s.format, rows, cols, random, 0.2));
  return {memory.vector(experts), s.format, rows, cols};
}

// The same weights for every call; rows as given.
MoeExperts problem(Workspace& memory, const Shape& s, std::span<const float> x, const std::vector<int32_t>& ids,
                   const std::vector<float>& weights) {
  Random random(1);
  const auto rows = static_cast<int64_t>(x.size()) / s.latent;
  return {.x = memory.rows(rows, s.latent, s.dtype, x),
          .ids = memory.matrix(rows, s.top_k, ids),
          .weights = memory.matrix(rows, s.top_k, weights),
          .w1 = bank(memory, s, s.width, s.latent, random),
          .w3 = bank(memory, s, s.width, s.latent, random),
          .w2 = bank(memory, s, s.latent, s.width, random),
          .beta = 4.0f,
          .linear_beta = 25.0f,
          .scratch = {},
          .out = memory.poisoned_rows(rows, s.latent, s.dtype)};
}

std::vector<float> run(Device& device, const Shape& s, std::span<const float> x, const std::vector<int32_t>& ids,
                       const std::vector<float>& weights) {
  Workspace memory(device);
  MoeExperts args = problem(memory, s, x, ids, weights);
  args.scratch = memory.poisoned_vector<std::byte>(
      static_cast<int64_t>(moe_experts_scratch_bytes(device, args.x.rows, s.top_k, s.experts, s.latent, s.width)));
  moe_experts(device, args);
  return memory.read(args.out);
}

// Two of the experts for each row, ascending.
std::vector<int32_t> pairs(int64_t rows, int64_t experts, Random& random) {
  std::vector<int32_t> ids;
  for (int64_t t = 0; t < rows; ++t) {
    const auto low = static_cast<int32_t>(random.below(experts - 1));
    ids.push_back(low);
    ids.push_back(low + 1 + static_cast<int32_t>(random.below(experts - 1 - low)));
  }
  return ids;
}

class MoeExpertsTest : public testing::OnEveryDevice {};

TEST_P(MoeExpertsTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::moe_experts(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

TEST_P(MoeExpertsTest, RowDoesNotDependOnHowManyThereAre) {
  constexpr size_t kRows = 130, kLatent = 64;
  Random random(2);
  const std::vector<float> x = random.normals(kRows * kLatent), weights = random.normals(kRows * 2);
  const std::vector<int32_t> ids = pairs(kRows, kSmall.experts, random);
  const std::vector<float> all = run(device(), kSmall, x, ids, weights);
  EXPECT_EQ(all, run(device(), kSmall, x, ids, weights)) << "not the same twice";
  for (const size_t rows : {1, 2, 3, 5, 8, 17, 64}) {
    for (const size_t first : {size_t{0}, size_t{47}, kRows - rows}) {
      const auto from = static_cast<int64_t>(first), to = static_cast<int64_t>(first + rows);
      const std::vector<float> some =
          run(device(), kSmall, std::span(x).subspan(first * kLatent, rows * kLatent),
              {ids.begin() + from * 2, ids.begin() + to * 2}, {weights.begin() + from * 2, weights.begin() + to * 2});
      EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + from * 64)) << rows << " rows from " << first;
    }
  }
}

TEST_P(MoeExpertsTest, AllRowsToOneExpert) {
  const Shape s = {5, 1, 33, 20, WeightFormat::kBf16, DType::kF32};
  Random random(3);
  const std::vector<float> x = random.normals(100 * 33), weights = random.normals(100);
  const std::vector<int32_t> ids(100, 3);
  Workspace host;
  const MoeExperts want = problem(host, s, x, ids, weights);
  reference::moe_experts(want);
  EXPECT_LE(certify::row_error(run(device(), s, x, ids, weights), host.read(want.out), 33), 2e-6);
}

TEST_P(MoeExpertsTest, SeventyThousandRoutedRows) {
  const Shape s = {4, 2, 16, 16, WeightFormat::kNvfp4, DType::kF32};
  constexpr int64_t kRows = 35'000;
  Random random(4);
  const std::vector<float> x = random.normals(kRows * 16), weights = random.normals(kRows * 2);
  const std::vector<int32_t> ids = pairs(kRows, s.experts, random);
  const std::vector<float> all = run(device(), s, x, ids, weights);
  for (const int64_t t : {int64_t{0}, int64_t{17'000}, int64_t{32'768}, kRows - 1}) {
    const std::vector<float> one = run(device(), s, std::span(x).subspan(static_cast<size_t>(t) * 16, 16),
                                       {ids[static_cast<size_t>(2 * t)], ids[static_cast<size_t>(2 * t + 1)]},
                                       {weights[static_cast<size_t>(2 * t)], weights[static_cast<size_t>(2 * t + 1)]});
    EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + t * 16)) << "row " << t;
  }
}

TEST_P(MoeExpertsTest, RefusesBeforeWriting) {
  Workspace memory(device());
  Random random(5);
  MoeExperts good =
      problem(memory, kSmall, random.normals(3 * 64), pairs(3, kSmall.experts, random), random.normals(3 * 2));
  const auto enough = static_cast<int64_t>(
      moe_experts_scratch_bytes(device(), 3, kSmall.top_k, kSmall.experts, kSmall.latent, kSmall.width));
  good.scratch = memory.poisoned_vector<std::byte>(enough);
  MoeExperts small = good, empty = good, wide = good, mixed = good, uneven = good, flat = good, onto = good;
  small.scratch.size = enough - 1;
  empty.w1.experts.size = empty.w3.experts.size = empty.w2.experts.size = 0;
  wide.w2.cols = 128;
  mixed.w3.format = WeightFormat::kNvfp4;
  uneven.weights.cols = 1;
  flat.beta = 0.0f;
  onto.out.data = const_cast<void*>(good.x.data);
  for (const MoeExperts& args : {small, empty, wide, mixed, uneven, flat, onto}) {
    EXPECT_THROW(moe_experts(device(), args), ContractError);
  }
  for (const float y : memory.read(good.out)) EXPECT_TRUE(std::isnan(y));
  for (const std::byte b : memory.read(View1<const std::byte>{good.scratch.data, enough})) {
    ASSERT_EQ(b, std::byte{0xFF});
  }
}

NIBBLE_ON_EVERY_DEVICE(MoeExpertsTest);

TEST(MoeExpertsThreads, AnyNumberGivesTheSameBits) {
  Random random(6);
  const std::vector<float> x = random.normals(60 * 64), weights = random.normals(60 * 2);
  const std::vector<int32_t> ids = pairs(60, kSmall.experts, random);
  for (const cpu::Isa& isa : cpu::instruction_sets()) {
    if (!isa.available) continue;
    cpu::CpuDevice one(*isa.kernels, 1);
    const std::vector<float> want = run(one, kSmall, x, ids, weights);
    for (const int threads : {2, 3, 7}) {
      cpu::CpuDevice several(*isa.kernels, threads);
      EXPECT_EQ(run(several, kSmall, x, ids, weights), want) << isa.name << ", " << threads << " threads";
    }
  }
}

// How far a planted fault moves the result, as certification measures it.
template <class Plant>
double error_of(const Plant& plant) {
  Workspace memory;
  Random random(7);
  const std::vector<float> x = random.normals(4 * 64), weights = {0.9f, 0.1f, 0.8f, 0.2f, 0.7f, 0.3f, 0.6f, 0.4f};
  const MoeExperts right = problem(memory, kSmall, x, pairs(4, kSmall.experts, random), weights);
  MoeExperts wrong = right;
  wrong.out = memory.poisoned_rows(4, 64, kSmall.dtype);
  reference::moe_experts(right);  // before the plant, which may change what both read
  plant(wrong);
  reference::moe_experts(wrong);
  return certify::row_error(memory.read(wrong.out), memory.read(right.out), 64);
}

TEST(MoeExpertsControl, GateAndUpSwappedIsCaught) {
  EXPECT_GT(error_of([](MoeExperts& a) { std::swap(a.w1, a.w3); }), 0.1);
}

TEST(MoeExpertsControl, WeightsOfTheWrongChoiceAreCaught) {
  EXPECT_GT(error_of([](MoeExperts& a) {
              auto* weights = const_cast<float*>(a.weights.data);
              for (int64_t t = 0; t < 4; ++t) std::swap(weights[2 * t], weights[2 * t + 1]);
            }),
            0.1);
}

}  // namespace
}  // namespace nibble::ops
