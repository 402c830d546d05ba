// Contract of ops/moe_route.h: every kernel of this machine, every cell, against fp64.
#include "ops/moe_route.h"

#include <limits>
#include <numeric>

#include "base/error.h"
#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

using certify::Random;
using certify::Workspace;

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

class MoeRouteTest : public testing::OnEveryDevice {
 protected:
  struct Result {
    std::vector<int32_t> ids;
    std::vector<float> weights;
    bool operator==(const Result&) const = default;
  };
  Result route(const std::vector<float>& logits, const std::vector<float>& bias, int64_t k) {
    const auto experts = static_cast<int64_t>(bias.size()), rows = static_cast<int64_t>(logits.size()) / experts;
    Workspace memory(device());
    const MoeRoute args = {memory.matrix(rows, experts, logits), memory.vector(bias),
                           memory.poisoned_matrix<int32_t>(rows, k), memory.poisoned_matrix<float>(rows, k), 2.0f};
    moe_route(device(), args);
    return {memory.read(args.ids), memory.read(args.weights)};
  }
};

std::vector<int32_t> first_ids(int64_t k) {
  std::vector<int32_t> ids(static_cast<size_t>(k));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

TEST_P(MoeRouteTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::moe_route(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

TEST_P(MoeRouteTest, EqualScoresTakeTheLowerId) {
  for (const int64_t experts : {1, 16, 17, 896, 1025}) {
    const auto n = static_cast<size_t>(experts);
    for (const int64_t k : {int64_t{1}, (experts + 1) / 2, experts}) {
      EXPECT_EQ(route(std::vector<float>(n, 0.25f), std::vector<float>(n, 0.0f), k).ids, first_ids(k)) << experts;
    }
  }
}

TEST_P(MoeRouteTest, LargeLogitsTieAsScores) {  // both sigmoids round to 1
  std::vector<float> logits(40, -1.0f);
  logits[7] = 30.0f, logits[31] = 60.0f;
  EXPECT_EQ(route(logits, std::vector<float>(40, 0.0f), 1).ids, std::vector<int32_t>{7});
}

TEST_P(MoeRouteTest, NaNCountsAsScoreZero) {
  const std::vector<float> no_bias(20, 0.0f);
  const Result all = route(std::vector<float>(20, kNan), no_bias, 4);
  EXPECT_EQ(all.ids, first_ids(4));
  EXPECT_EQ(all.weights, std::vector<float>(4, 0.0f));
  std::vector<float> logits(20, kNan);
  logits[3] = -5.0f, logits[18] = 1.0f;
  EXPECT_EQ(route(logits, no_bias, 2).ids, (std::vector<int32_t>{3, 18}));
}

TEST_P(MoeRouteTest, InfinitiesAreOneAndZero) {
  std::vector<float> logits(20, -kInf);
  logits[2] = kInf, logits[19] = kInf;
  const Result r = route(logits, std::vector<float>(20, 0.0f), 3);
  EXPECT_EQ(r.ids, (std::vector<int32_t>{0, 2, 19}));
  EXPECT_EQ(r.weights, (std::vector<float>{0.0f, 1.0f, 1.0f}));  // scale 2 shared by two
}

TEST_P(MoeRouteTest, RowDoesNotDependOnItsNeighbours) {
  Random random(2);
  const std::vector<float> logits = random.normals(9 * 100), bias = random.normals(100, 0.1);
  const Result all = route(logits, bias, 7);
  EXPECT_EQ(all, route(logits, bias, 7));
  for (int64_t t = 0; t < 9; ++t) {
    const Result one = route({logits.begin() + t * 100, logits.begin() + (t + 1) * 100}, bias, 7);
    EXPECT_TRUE(std::equal(one.ids.begin(), one.ids.end(), all.ids.begin() + t * 7)) << "row " << t;
    EXPECT_TRUE(std::equal(one.weights.begin(), one.weights.end(), all.weights.begin() + t * 7)) << "row " << t;
  }
}

TEST_P(MoeRouteTest, RefusesBeforeWriting) {
  Workspace memory(device());
  Random random(3);
  const MoeRoute good = {memory.matrix(2, 8, random.normals(16)), memory.vector(random.normals(8)),
                         memory.poisoned_matrix<int32_t>(2, 4), memory.poisoned_matrix<float>(2, 4), 1.0f};
  MoeRoute short_bias = good, too_many = good, none = good, uneven = good, onto = good;
  short_bias.bias.size = 7;
  too_many.ids.cols = too_many.weights.cols = 9;
  none.ids.cols = none.weights.cols = 0;
  uneven.weights.rows = 1;
  onto.weights.data = const_cast<float*>(good.logits.data);
  for (const MoeRoute& args : {short_bias, too_many, none, uneven, onto}) {
    EXPECT_THROW(moe_route(device(), args), ContractError);
  }
  EXPECT_EQ(memory.read(good.ids), std::vector<int32_t>(8, -1));
  for (const float w : memory.read(good.weights)) EXPECT_TRUE(std::isnan(w));
}

// The fault that others shipped: weights taken from the biased score.
TEST_P(MoeRouteTest, BiasedWeightsAreCaught) {
  Random random(4);
  const std::vector<float> logits = random.normals(896), bias = random.normals(896, 0.1);
  const Result r = route(logits, bias, 16);
  std::vector<double> biased, fair;
  for (const int32_t id : r.ids) {
    fair.push_back(1 / (1 + std::exp(-static_cast<double>(logits[static_cast<size_t>(id)]))));
    biased.push_back(fair.back() + static_cast<double>(bias[static_cast<size_t>(id)]));
  }
  const auto worst = [&](const std::vector<double>& scores) {
    const double total = std::accumulate(scores.begin(), scores.end(), 0.0);
    double error = 0;
    for (size_t i = 0; i < 16; ++i) {
      error = std::max(error, std::fabs(static_cast<double>(r.weights[i]) / (scores[i] / total * 2.0) - 1));
    }
    return error;
  };
  EXPECT_LT(worst(fair), 1e-6);
  EXPECT_GT(worst(biased), 1e-2);
}

NIBBLE_ON_EVERY_DEVICE(MoeRouteTest);

}  // namespace
}  // namespace nibble::ops
