// Contract of ops/sample.h: every kernel of this machine, every cell, against the reference.
#include "ops/sample.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"
#include "ops/philox.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

using certify::Random;
using certify::Workspace;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Result {
  std::vector<int32_t> ids, status;
  friend bool operator==(const Result&, const Result&) = default;
};
struct Extras {
  std::vector<int32_t> seen_ids = {}, seen_counts = {}, bias_ids = {};
  std::vector<float> bias_values = {};
};

// `logits` is [rows, N], row by row; on `device`, or by the reference where that is null.
Result run(Device* device, const std::vector<float>& logits, const std::vector<SampleRow>& rows,
           const Extras& extras = {}) {
  Workspace memory = device == nullptr ? Workspace() : Workspace(*device);
  const auto count = static_cast<int64_t>(rows.size()), vocabulary = static_cast<int64_t>(logits.size()) / count;
  const size_t scratch = device == nullptr ? 0 : sample_scratch_bytes(*device, vocabulary);
  const Sample args = {.logits = memory.matrix(count, vocabulary, logits),
                       .rows = memory.vector(rows),
                       .seen_ids = memory.vector(extras.seen_ids),
                       .seen_counts = memory.vector(extras.seen_counts),
                       .bias_ids = memory.vector(extras.bias_ids),
                       .bias_values = memory.vector(extras.bias_values),
                       .scratch = memory.poisoned_vector<std::byte>(static_cast<int64_t>(scratch)),
                       .ids = memory.poisoned_vector<int32_t>(count),
                       .status = memory.poisoned_vector<int32_t>(count)};
  device == nullptr ? reference::sample(args) : sample(*device, args);
  return {memory.read<int32_t>(args.ids), memory.read<int32_t>(args.status)};
}

class SampleTest : public testing::OnEveryDevice {};

TEST_P(SampleTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::sample(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

TEST_P(SampleTest, EqualsTheReferenceOnThousandsOfRandomRows) {
  Random random(2);
  constexpr int64_t kRows = 3000, kVocabulary = 61;
  std::vector<float> logits = random.normals(kRows * kVocabulary, 3.0);
  for (float& x : logits) x = std::round(x * 4) / 4;  // many ties
  std::vector<SampleRow> rows(kRows);
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto choose = [&](float off, float from, float to) {
      return random.below(2) == 0 ? off : static_cast<float>(from + random.uniform() * (to - from));
    };
    rows[r] = {.temperature = choose(1.0f, 0.0f, 2.0f),
               .top_p = choose(1.0f, 0.0f, 1.0f),
               .min_p = choose(0.0f, 0.0f, 0.5f),
               .top_k = static_cast<int32_t>(random.below(20)),
               .seed = static_cast<uint64_t>(random.below(1 << 30)) << 20,
               .position = r};
  }
  const Result want = run(nullptr, logits, rows), got = run(&device(), logits, rows);
  EXPECT_EQ(got.status, want.status);
  for (size_t r = 0; r < rows.size(); ++r) EXPECT_EQ(got.ids[r], want.ids[r]) << "row " << r;
}

TEST_P(SampleTest, GreedyTakesTheLowerIdOnTies) {
  const std::vector<float> logits = {1, 7, 7, 2, /* */ 0, 0, 0, 0, /* */ -kInfinity, -3, -kInfinity, -3};
  for (const float temperature : {0.0f, 9e-6f, -1.0f}) {
    const std::vector<SampleRow> rows(3, {.temperature = temperature});
    EXPECT_EQ(run(&device(), logits, rows).ids, (std::vector<int32_t>{1, 0, 1}));
  }
}

// Faults of others: a NaN row that becomes padding for ever, or a uniform draw once somebody sanitised it.
TEST_P(SampleTest, BadLogitsAreAnErrorAndNeverAToken) {
  const float nan = std::nanf("");
  const std::vector<float> logits = {nan,       nan,        nan,        1,          nan, 3, 1,         2,
                                     kInfinity, -kInfinity, -kInfinity, -kInfinity, 1,   2, -kInfinity};
  for (const float temperature : {0.0f, 1.0f}) {
    const std::vector<SampleRow> rows(5, {.temperature = temperature});
    const Result got = run(&device(), logits, rows);
    EXPECT_EQ(got, run(nullptr, logits, rows));
    EXPECT_EQ(got.status, (std::vector<int32_t>{1, 1, 1, 1, 0}));
    for (size_t r = 0; r < 4; ++r) EXPECT_EQ(got.ids[r], -1);
    EXPECT_TRUE(got.ids[4] == 0 || got.ids[4] == 1);
  }
}

TEST_P(SampleTest, BiasThatBansEverythingIsAnError) {
  const Extras ban = {.bias_ids = {0, 1, 2}, .bias_values = {-kInfinity, -kInfinity, -kInfinity}};
  const SampleRow two = {.temperature = 1.0f, .bias_begin = 0, .bias_end = 2};
  const SampleRow three = {.temperature = 1.0f, .bias_begin = 0, .bias_end = 3};
  EXPECT_EQ(run(&device(), {5, 5, 1}, {two}, ban), (Result{{2}, {Sample::kOk}}));
  EXPECT_EQ(run(&device(), {5, 5, 1}, {three}, ban), (Result{{-1}, {Sample::kBadLogits}}));
}

TEST_P(SampleTest, PenaltiesAndBiasInOrder) {
  // Greedy, so that the adjusted logits show: each case lifts another token to the top.
  const Extras extras = {
      .seen_ids = {0, 1, 99, -1}, .seen_counts = {0, 3, 1, 1}, .bias_ids = {2, 99}, .bias_values = {4.5f, 9}};
  const auto pick = [&](std::vector<float> logits, SampleRow how) {
    how.seen_end = 4;
    return run(&device(), std::move(logits), {how}, extras).ids[0];
  };
  EXPECT_EQ(pick({4, 3, 1}, {}), 0);
  EXPECT_EQ(pick({4, 3, 2.5f}, {.repetition_penalty = 2.0f}), 2);     // 2, 1.5, 2.5: prompt tokens count here
  EXPECT_EQ(pick({-1, -1, -1.5f}, {.repetition_penalty = 2.0f}), 2);  // negative ones are multiplied
  EXPECT_EQ(pick({3.9f, 4, 3}, {.frequency_penalty = 0.1f}), 0);      // 3 times 0.1 off token 1, nothing off token 0
  EXPECT_EQ(pick({3.9f, 4, 3}, {.presence_penalty = 0.2f}), 0);
  EXPECT_EQ(pick({4, 3, 0}, {.bias_end = 2}), 2);
}

TEST_P(SampleTest, DrawDependsOnSeedAndPositionOnly) {
  Random random(5);
  const std::vector<float> one = random.normals(500);
  const SampleRow how = {.temperature = 1.0f, .top_p = 0.95f, .seed = 42, .position = 7};
  const int32_t want = run(&device(), one, {how}).ids[0];
  std::vector<float> many;
  std::vector<SampleRow> rows;
  for (int i = 0; i < 10; ++i) {
    const std::vector<float> other = random.normals(500);
    many.insert(many.end(), i % 3 == 1 ? one.begin() : other.begin(), i % 3 == 1 ? one.end() : other.end());
    rows.push_back(i % 3 == 1 ? how : SampleRow{.temperature = 1.0f, .seed = 1});
  }
  const Result got = run(&device(), many, rows);
  for (size_t i = 1; i < 10; i += 3) EXPECT_EQ(got.ids[i], want);
}

// Chi-square of 20,000 draws over positions against the true distribution; 99.9 % quantile for 7 degrees is 24.3.
double chi_square(std::span<const int32_t> ids, std::span<const double> p) {
  std::vector<double> seen(p.size());
  for (const int32_t id : ids) seen[static_cast<size_t>(id)] += 1;
  double out = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double expected = p[i] * static_cast<double>(ids.size());
    if (expected == 0 && seen[i] > 0) return 1e9;
    if (expected > 0) out += std::pow(seen[i] - expected, 2) / expected;
  }
  return out;
}

TEST_P(SampleTest, DrawsFollowTheDistribution) {
  constexpr size_t kDraws = 20000;
  const std::vector<float> x = {0.3f, 1.0f, -0.5f, 0.0f, 2.0f, 1.0f, -2.0f, 0.7f};
  std::vector<float> logits;
  for (size_t i = 0; i < kDraws; ++i) logits.insert(logits.end(), x.begin(), x.end());
  const auto check = [&](SampleRow how, const std::vector<size_t>& kept) {
    std::vector<double> p(x.size());
    for (const size_t i : kept) p[i] = std::exp(static_cast<double>(x[i]) / static_cast<double>(how.temperature));
    const double total = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& v : p) v /= total;
    std::vector<SampleRow> rows(kDraws, how);
    for (size_t i = 0; i < kDraws; ++i) rows[i].seed = 11, rows[i].position = i;
    EXPECT_LT(chi_square(run(&device(), logits, rows).ids, p), 24.3);
  };
  check({.temperature = 1.0f}, {0, 1, 2, 3, 4, 5, 6, 7});
  check({.temperature = 0.5f}, {0, 1, 2, 3, 4, 5, 6, 7});
  check({.temperature = 1.0f, .top_k = 2}, {4, 1});        // the tie of 1 and 5 goes to 1
  check({.temperature = 1.0f, .top_p = 0.6f}, {4, 1, 5});  // 0.40, 0.55, 0.70 cumulative
  check({.temperature = 1.0f, .min_p = 0.3f}, {4, 1, 5});  // e^-1 = 0.37 stays, e^-1.3 = 0.27 goes
}

TEST_P(SampleTest, RefusesBeforeWriting) {
  Workspace memory(device());
  Sample args = {.logits = memory.matrix(2, 3, std::vector<float>(6)),
                 .rows = memory.vector(std::vector<SampleRow>(2)),
                 .seen_ids = {},
                 .seen_counts = {},
                 .bias_ids = {},
                 .bias_values = {},
                 .scratch = memory.poisoned_vector<std::byte>(8),
                 .ids = memory.poisoned_vector<int32_t>(2),
                 .status = memory.poisoned_vector<int32_t>(2)};
  EXPECT_THROW(sample(device(), args), ContractError);  // scratch too small
  args.scratch = memory.poisoned_vector<std::byte>(static_cast<int64_t>(sample_scratch_bytes(device(), 3)));
  args.rows.size = 1;
  EXPECT_THROW(sample(device(), args), ContractError);
  EXPECT_EQ(memory.read<int32_t>(args.ids), (std::vector<int32_t>{-1, -1}));  // the poison
  EXPECT_EQ(memory.read<int32_t>(args.status), (std::vector<int32_t>{-1, -1}));
}

// A cumulative sum over unsorted tokens under top-p keeps the wrong ones.
TEST(SampleControl, UnsortedCumulativeIsCaught) {
  const std::vector<float> x = {0.3f, 1.0f, -0.5f, 0.0f, 2.0f, 1.0f, -2.0f, 0.7f};
  std::vector<double> weight, p(x.size());
  for (const float v : x) weight.push_back(std::exp(static_cast<double>(v)));
  const double all = std::accumulate(weight.begin(), weight.end(), 0.0);
  p[4] = weight[4], p[1] = weight[1], p[5] = weight[5];
  const double kept = p[4] + p[1] + p[5];
  for (double& v : p) v /= kept;
  std::vector<int32_t> ids;
  for (uint64_t i = 0; i < 1000; ++i) {
    const double target = uniform_draw(11, i) * 0.6 * all;
    double cumulative = 0;
    int32_t id = 0;
    while ((cumulative += weight[static_cast<size_t>(id)]) <= target) ++id;
    ids.push_back(id);
  }
  EXPECT_GT(chi_square(ids, p), 24.3);
}

// Known answers of the generator's authors.
TEST(Philox, KnownAnswers) {
  const auto words = [](PhiloxBlock x) { return std::vector<uint32_t>(x.word, x.word + 4); };
  EXPECT_EQ(words(philox4x32_10({{0, 0, 0, 0}}, 0, 0)),
            (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(words(philox4x32_10({{~0u, ~0u, ~0u, ~0u}}, ~0u, ~0u)),
            (std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words(philox4x32_10({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0)),
            (std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

NIBBLE_ON_EVERY_DEVICE(SampleTest);

}  // namespace
}  // namespace nibble::ops
