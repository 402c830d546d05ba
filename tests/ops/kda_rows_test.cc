// Contract of ops/kda_rows.h: every kernel of this machine against fp64, and the promise that cutting a sequence into
// steps, mixing it with others, or the number of threads never changes a bit.
#include "ops/kda_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "cpu/cpu_device.h"
#include "cpu/isa.h"
#include "ops/certify/entries.h"
#include "ops/certify/steps.h"
#include "ops/certify/workspace.h"
#include "ops/kda_gate.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

using certify::Random;
using certify::Workspace;
using Floats = std::vector<float>;

// One sequence's inputs, row after row; row i is position i.
struct Tokens {
  int64_t heads, key_dim, value_dim, count;
  Floats q, k, v, decay, beta;
};

Tokens random_tokens(int64_t heads, int64_t key_dim, int64_t value_dim, int64_t count, uint64_t seed, double low = -5,
                     double high = 0) {
  Random random(seed);
  Tokens out = {heads, key_dim, value_dim, count, {}, {}, {}, {}, {}};
  out.q = random.normals(count * heads * key_dim);
  out.k = random.normals(count * heads * key_dim);
  out.v = random.normals(count * heads * value_dim);
  for (int64_t i = 0; i < count * heads * key_dim; ++i) {
    out.decay.push_back(static_cast<float>(low + (high - low) * random.uniform()));
  }
  for (int64_t i = 0; i < count * heads; ++i) out.beta.push_back(static_cast<float>(random.uniform()));
  return out;
}

// Rows [first, first + count) of a sequence that lives in `slot`.
struct Part {
  const Tokens* tokens;
  int64_t first, count;
  int32_t slot;
};

// What the slots hold; device memory.
struct Pools {
  View1<float> state, records;
  Pools(Workspace& memory, const Tokens& shape, int64_t slots, float fill) {
    const int64_t state_size = slots * shape.heads * shape.value_dim * shape.key_dim;
    const int64_t record_size = slots * shape.heads * kSegmentTokens * (2 * shape.key_dim + shape.value_dim);
    state = memory.vector(Floats(static_cast<size_t>(state_size), fill));
    records = memory.vector(Floats(static_cast<size_t>(record_size), fill));
  }
};

Floats joined(const std::vector<Part>& parts, Floats Tokens::*member) {
  Floats out;
  for (const Part& p : parts) {
    const Floats& all = p.tokens->*member;
    const auto width = static_cast<int64_t>(all.size()) / p.tokens->count;
    out.insert(out.end(), all.begin() + p.first * width, all.begin() + (p.first + p.count) * width);
  }
  return out;
}

KdaRows arguments(Device& device, Workspace& memory, const Pools& pools, const std::vector<Part>& parts) {
  const Tokens& shape = *parts[0].tokens;
  certify::Ragged ragged;
  for (const Part& p : parts) {
    ragged.rows.push_back(static_cast<int32_t>(p.count));
    ragged.position.push_back(static_cast<int32_t>(p.first));
    ragged.slot.push_back(p.slot);
  }
  const int64_t rows = total_rows(ragged), keys = shape.heads * shape.key_dim, values = shape.heads * shape.value_dim;
  const size_t scratch = kda_rows_scratch_bytes(device, shape.key_dim, shape.value_dim);
  return {.q = memory.rows(rows, keys, DType::kF32, joined(parts, &Tokens::q)),
          .k = memory.rows(rows, keys, DType::kF32, joined(parts, &Tokens::k)),
          .v = memory.rows(rows, values, DType::kF32, joined(parts, &Tokens::v)),
          .decay = memory.matrix(rows, keys, joined(parts, &Tokens::decay)),
          .beta = memory.matrix(rows, shape.heads, joined(parts, &Tokens::beta)),
          .state = pools.state,
          .records = pools.records,
          .heads = shape.heads,
          .key_dim = shape.key_dim,
          .value_dim = shape.value_dim,
          .sequences = sequences(memory, ragged),
          .out = memory.poisoned_rows(rows, values, DType::kF32),
          .scratch = memory.poisoned_vector<std::byte>(static_cast<int64_t>(scratch))};
}

// One step; the output rows of all parts.
Floats run(Device& device, const Pools& pools, const std::vector<Part>& parts) {
  Workspace memory(device);
  const KdaRows args = arguments(device, memory, pools, parts);
  kda_rows(device, args);
  return memory.read(args.out);
}

struct Result {
  Floats out, state, records;
};
bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}
bool same_bits(const Result& a, const Result& b) {
  return same_bits(a.out, b.out) && same_bits(a.state, b.state) && same_bits(a.records, b.records);
}

// A sequence alone in a fresh slot, in steps of the given sizes; what is left goes in one last step.
Result run_cut(Device& device, const Tokens& tokens, const std::vector<int64_t>& sizes, float fill = 0.0f) {
  Workspace memory(device);
  const Pools pools(memory, tokens, 1, fill);
  Result result;
  int64_t first = 0;
  for (size_t i = 0; first < tokens.count; ++i) {
    const int64_t left = tokens.count - first, count = i < sizes.size() ? std::min(sizes[i], left) : left;
    const Floats out = run(device, pools, {{&tokens, first, count, 0}});
    result.out.insert(result.out.end(), out.begin(), out.end());
    first += count;
  }
  result.state = memory.read(View1<const float>(pools.state));
  result.records = memory.read(View1<const float>(pools.records));
  return result;
}

// A second reference, apart from the op's: the recurrence of one head, with one planted fault at a time.
enum class Fault { kNone, kTransposedState, kDecayLate, kNoBeta, kBetaTwice, kNoScale, kNoNorm, kOldState };

Floats recurrence(const Tokens& x, Fault fault) {
  Floats out;
  const auto n = static_cast<size_t>(x.key_dim), width = static_cast<size_t>(x.value_dim);
  std::vector<std::vector<double>> s(width, std::vector<double>(n, 0.0));
  for (size_t t = 0; t < static_cast<size_t>(x.count); ++t) {
    double qq = 1e-6, kk = 1e-6;
    for (size_t i = 0; i < n; ++i) {
      qq += std::pow(static_cast<double>(x.q[t * n + i]), 2);
      kk += std::pow(static_cast<double>(x.k[t * n + i]), 2);
    }
    if (fault == Fault::kNoNorm) qq = kk = 1;
    std::vector<double> q(n), k(n), g(n);
    for (size_t i = 0; i < n; ++i) {
      q[i] = static_cast<double>(x.q[t * n + i]) / std::sqrt(qq);
      if (fault != Fault::kNoScale) q[i] /= std::sqrt(static_cast<double>(n));
      k[i] = static_cast<double>(x.k[t * n + i]) / std::sqrt(kk);
      g[i] = std::exp(static_cast<double>(x.decay[t * n + i]));
    }
    double beta = static_cast<double>(x.beta[t]);
    if (fault == Fault::kNoBeta) beta = 1;
    if (fault == Fault::kBetaTwice) beta *= 2;
    const auto old = s;
    for (size_t v = 0; v < width; ++v) {
      double predicted = 0;
      for (size_t i = 0; i < n; ++i) predicted += s[v][i] * (fault == Fault::kDecayLate ? 1.0 : g[i]) * k[i];
      const double delta = beta * (static_cast<double>(x.v[t * width + v]) - predicted);
      for (size_t i = 0; i < n; ++i) s[v][i] = s[v][i] * g[i] + delta * k[i];
    }
    for (size_t v = 0; v < width; ++v) {
      double o = 0;
      for (size_t i = 0; i < n; ++i) {
        o += q[i] * (fault == Fault::kTransposedState ? s[i][v] : fault == Fault::kOldState ? old[v][i] : s[v][i]);
      }
      out.push_back(static_cast<float>(o));
    }
  }
  return out;
}

// Of the sequence's largest value: a row's own may be as small as q and k happen to be orthogonal.
double error_of(const Floats& got, const Floats& want) {
  return certify::row_error(got, want, static_cast<int64_t>(want.size()));
}
constexpr double kBudget = 1.2e-6;  // measured 3.5e-7
constexpr double kCaught = 1e-2;

class KdaRowsTest : public testing::OnEveryDevice {};

TEST_P(KdaRowsTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::kda_rows(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

// docs/model.md 5.9, through both ops.
TEST_P(KdaRowsTest, AgreesWithTheWorkedExample) {
  Workspace memory(device());
  const KdaGate gate = {.gate = memory.rows(2, 2, DType::kF32, Floats{0.3f, 0.4f, -0.6f, 1.0f}),
                        .beta = memory.rows(2, 1, DType::kF32, Floats{0.2f, -0.7f}),
                        .a_log = memory.vector(Floats{0.5f}),
                        .dt_bias = memory.vector(Floats{0.1f, -0.2f}),
                        .lower_bound = -5.0f,
                        .decay = memory.poisoned_matrix<float>(2, 2),
                        .beta_out = memory.poisoned_matrix<float>(2, 1)};
  kda_gate(device(), gate);
  const Tokens tokens = {1,
                         2,
                         2,
                         2,
                         {1, 2, -1, 0.5f},
                         {0.5f, -1, 2, 1},
                         {3, -2, 1, 1},
                         memory.read(gate.decay),
                         memory.read(gate.beta_out)};
  const Floats decay = {-3.2957274f, -2.9084857f, -1.524194f, -3.9450573f}, beta = {0.549834f, 0.3318122f};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(tokens.decay[i], decay[i], 1e-6f);
  for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(tokens.beta[i], beta[i], 1e-6f);
  const Result result = run_cut(device(), tokens, {1, 1});
  const Floats out = {-0.6998241f, 0.4665494f, -0.232984f, -0.0793039f};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(result.out[i], out[i], 1e-6f);
  const auto state = reference::recurrent_state(
      {{result.state.data(), 4}, {result.records.data(), kSegmentTokens * 6}, 1, 2, 2}, 0, 0, 2);
  const std::vector<double> expected = {0.4185867, 0.100413, 0.2155786, 0.1803762};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(state[i], expected[i], 1e-6);
}

// The second shape is of whole vectors and long enough for kernels that treat many segments at once in a way of their
// own.
TEST_P(KdaRowsTest, CuttingASequenceChangesNoBit) {
  for (const Tokens& tokens : {random_tokens(2, 48, 40, 70, 2), random_tokens(2, 48, 80, 150, 3)}) {
    const Result whole = run_cut(device(), tokens, {});
    for (const int64_t size : {1, 3, 16, 64}) {
      const std::vector<int64_t> cuts(static_cast<size_t>(tokens.count), size);
      EXPECT_TRUE(same_bits(run_cut(device(), tokens, cuts), whole)) << "chunks of " << size;
    }
    for (int64_t at = 1; at <= 66; ++at) {
      EXPECT_TRUE(same_bits(run_cut(device(), tokens, {at}), whole)) << "cut at " << at;
    }
  }
}

// Whether each sequence gets in one step of counts[s] rows, after before[s] others, what it gets alone.
void expect_as_alone(Device& device, const std::vector<int64_t>& counts, const std::vector<int64_t>& before) {
  const auto slots = static_cast<int64_t>(counts.size());
  Workspace memory(device);
  std::vector<Tokens> tokens;
  for (size_t s = 0; s < counts.size(); ++s) tokens.push_back(random_tokens(3, 64, 64, before[s] + counts[s], s + 1));
  const Pools pools(memory, tokens[0], slots, NAN);
  std::vector<Part> parts;
  for (size_t s = 0; s < counts.size(); ++s) {
    const auto slot = static_cast<int32_t>(slots - 1) - static_cast<int32_t>(s);
    if (before[s] != 0) run(device, pools, {{&tokens[s], 0, before[s], slot}});
    parts.push_back({&tokens[s], before[s], counts[s], slot});
  }
  const Floats together = run(device, pools, parts);
  auto row = together.begin();
  for (size_t s = 0; s < counts.size(); ++s) {
    const Floats alone = run_cut(device, tokens[s], {}).out;
    const int64_t values = counts[s] * 3 * 64;
    EXPECT_TRUE(std::equal(alone.end() - values, alone.end(), row)) << "sequence " << s;
    row += values;
  }
}

// Steps that mix single tokens with chunks.
TEST_P(KdaRowsTest, CompanyChangesNoBit) { expect_as_alone(device(), {1, 70, 1, 64, 3}, {0, 0, 47, 15, 30}); }

// More single tokens than a kernel may take together, at all places of a segment, and among them a chunk and a sequence
// that rests.
TEST_P(KdaRowsTest, AnyNumberOfSingleTokensChangesNoBit) {
  std::vector<int64_t> counts(41, 1), before(41);
  for (size_t s = 0; s < before.size(); ++s) before[s] = static_cast<int64_t>(s);
  counts[20] = 18;
  counts[21] = 0;
  expect_as_alone(device(), counts, before);
}

TEST_P(KdaRowsTest, OtherSlotsAreUntouched) {
  const Tokens tokens = random_tokens(2, 17, 3, 40, 3);
  Workspace memory(device());
  const Pools pools(memory, tokens, 3, NAN);
  const Floats state = memory.read(View1<const float>(pools.state));
  const Floats records = memory.read(View1<const float>(pools.records));
  run(device(), pools, {{&tokens, 0, 0, 0}, {&tokens, 0, 40, 1}});
  const auto others_kept = [](const Floats& before, const Floats& after) {
    const size_t slot = before.size() / 3 * sizeof(float);
    const auto *a = reinterpret_cast<const char*>(before.data()), *b = reinterpret_cast<const char*>(after.data());
    return std::memcmp(a, b, slot) == 0 && std::memcmp(a + 2 * slot, b + 2 * slot, slot) == 0;
  };
  EXPECT_TRUE(others_kept(state, memory.read(View1<const float>(pools.state))));
  EXPECT_TRUE(others_kept(records, memory.read(View1<const float>(pools.records))));
}

TEST_P(KdaRowsTest, RecycledSlotIsAsGoodAsAFreshOne) {
  const Tokens tokens = random_tokens(2, 48, 40, 40, 4);
  const Result fresh = run_cut(device(), tokens, {5, 11, 1}), recycled = run_cut(device(), tokens, {5, 11, 1}, NAN);
  EXPECT_TRUE(same_bits(fresh, recycled));
}

TEST_P(KdaRowsTest, NanStaysInItsSequence) {
  const Tokens clean = random_tokens(2, 48, 40, 20, 5);
  Tokens bad = clean;
  bad.v[7] = bad.k[3 * 96] = NAN;
  Workspace memory(device());
  const Pools pools(memory, clean, 3, 0.0f);
  const Floats out = run(device(), pools, {{&clean, 0, 20, 0}, {&bad, 0, 20, 1}, {&clean, 0, 20, 2}});
  const Floats alone = run_cut(device(), clean, {}).out;
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), out.begin()));
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), out.end() - static_cast<int64_t>(alone.size())));
  EXPECT_TRUE(std::isnan(out[alone.size() + 7]));
}

// The ends of the decay's range, and keys so alike that the triangular system is as badly conditioned as it gets.
TEST_P(KdaRowsTest, ExtremesAgreeWithFp64) {
  Tokens strong = random_tokens(1, 128, 128, 48, 6, -5, -5), none = random_tokens(1, 128, 128, 200, 7, 0, 0);
  Tokens alike = random_tokens(1, 128, 128, 64, 8, -0.02, 0);
  for (size_t i = 0; i < alike.k.size(); ++i) alike.k[i] = alike.k[i % 128] + 0.1f * alike.k[i];
  std::fill(alike.beta.begin(), alike.beta.end(), 0.98f);
  for (const Tokens* tokens : {&strong, &none, &alike}) {
    const Floats out = run_cut(device(), *tokens, {}).out;
    EXPECT_LE(error_of(out, recurrence(*tokens, Fault::kNone)), kBudget);
  }
}

TEST_P(KdaRowsTest, RefusesBeforeWriting) {
  const Tokens tokens = random_tokens(2, 32, 16, 20, 9);
  Workspace memory(device());
  const Pools pools(memory, tokens, 1, 0.0f);
  const KdaRows good = arguments(device(), memory, pools, {{&tokens, 0, 20, 0}});
  std::vector<KdaRows> bad(7, good);
  bad[0].key_dim = 16;
  bad[1].records.size -= 1;
  bad[2].beta.cols = 1;
  bad[3].out.dtype = DType::kBf16;
  bad[4].scratch.size -= 1;
  bad[5].sequences.position.size = 0;
  bad[6].out.data = pools.state.data;
  for (size_t i = 0; i < bad.size(); ++i) EXPECT_THROW(kda_rows(device(), bad[i]), ContractError) << i;
  for (const float y : memory.read(good.out)) EXPECT_TRUE(std::isnan(y));
  for (const float s : memory.read(View1<const float>(pools.state))) EXPECT_EQ(s, 0.0f);
}

NIBBLE_ON_EVERY_DEVICE(KdaRowsTest);

TEST(KdaRowsThreads, TheirNumberChangesNoBit) {
  const Tokens tokens = random_tokens(5, 48, 40, 40, 10);
  for (const cpu::Isa& isa : cpu::instruction_sets()) {
    if (!isa.available) continue;
    cpu::CpuDevice one(*isa.kernels, 1);
    const Result expected = run_cut(one, tokens, {7, 20});
    for (int threads = 2; threads <= 7; ++threads) {
      cpu::CpuDevice many(*isa.kernels, threads);
      EXPECT_TRUE(same_bits(run_cut(many, tokens, {7, 20}), expected)) << isa.name << " " << threads;
    }
  }
}

// K = V hides a transposed state from every shape check.
TEST(KdaRowsControl, PlantedFaultsAreCaught) {
  const Tokens tokens = random_tokens(1, 64, 64, 40, 11, -1, 0);
  cpu::CpuDevice device(*cpu::best_isa().kernels, 1);
  const Floats out = run_cut(device, tokens, {}).out;
  EXPECT_LE(error_of(out, recurrence(tokens, Fault::kNone)), kBudget);
  for (const Fault fault : {Fault::kTransposedState, Fault::kDecayLate, Fault::kNoBeta, Fault::kBetaTwice,
                            Fault::kNoScale, Fault::kNoNorm, Fault::kOldState}) {
    EXPECT_GT(error_of(out, recurrence(tokens, fault)), kCaught) << static_cast<int>(fault);
  }
}

// The same fault in memory: S0 of a continued sequence handed over as [K, V].
TEST(KdaRowsControl, TransposedPoolIsCaught) {
  const Tokens tokens = random_tokens(1, 64, 64, 17, 12, -1, 0);
  cpu::CpuDevice device(*cpu::best_isa().kernels, 1);
  Workspace memory(device);
  const Pools pools(memory, tokens, 1, 0.0f);
  run(device, pools, {{&tokens, 0, 16, 0}});
  for (int64_t v = 0; v < 64; ++v) {
    for (int64_t k = 0; k < v; ++k) std::swap(pools.state.data[v * 64 + k], pools.state.data[k * 64 + v]);
  }
  const Floats wrong = run(device, pools, {{&tokens, 16, 1, 0}}), all = recurrence(tokens, Fault::kNone);
  EXPECT_GT(error_of(wrong, Floats(all.end() - 64, all.end())), kCaught);
}

}  // namespace
}  // namespace nibble::ops
