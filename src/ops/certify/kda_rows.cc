// Cells: K3's head shape for single tokens and prompts, sequences that start and continue, odd widths, decays of every
// size, both dtypes. Outputs and states count alike.
#include "ops/kda_rows.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "ops/certify/entries.h"
#include "ops/certify/steps.h"
#include "ops/certify/workspace.h"

namespace nibble::ops::certify {
namespace {

struct Cell {
  Ragged step;  // slot 0 is nobody's
  int64_t heads, key_dim, value_dim;
  DType dtype;
  double low, high;  // the range of decays
};

std::vector<Cell> cells() {
  return {{{{1}, {37}, {1}}, 96, 128, 128, DType::kBf16, -5.0, 0.0},
          {{{70, 1, 3}, {0, 16, 31}, {2, 3, 1}}, 4, 128, 128, DType::kF32, -5.0, 0.0},
          {{{220}, {0}, {1}}, 2, 128, 128, DType::kF32, -0.05, 0.0},
          {{{220}, {5}, {1}}, 2, 64, 64, DType::kF32, -5.0, -4.9},
          {{{0, 20, 1}, {3, 9, 0}, {3, 2, 1}}, 3, 48, 40, DType::kF32, -2.0, 0.0},
          {{{33}, {0}, {1}}, 1, 17, 3, DType::kF32, -1.0, 0.0}};
}

// The records of a sequence that has walked to `position` with decays of `decay`, in the form that a kernel leaves.
void fill_records(std::span<float> records, const Cell& c, int64_t heads, int64_t position, Random& random) {
  const auto keys = static_cast<size_t>(c.key_dim), width = 2 * keys + static_cast<size_t>(c.value_dim);
  for (size_t h = 0; h < static_cast<size_t>(heads); ++h) {
    std::vector<double> g(keys, 0.0);
    for (size_t i = 0; i < static_cast<size_t>(position % kSegmentTokens); ++i) {
      const auto record = records.subspan((h * kSegmentTokens + i) * width, width);
      for (size_t k = 0; k < keys; ++k) {
        g[k] += c.low + (c.high - c.low) * random.uniform();
        record[k] = static_cast<float>(g[k]);
        const double key = random.normal() / std::sqrt(static_cast<double>(keys));
        record[keys + k] =
            static_cast<float>(key * std::exp(-static_cast<double>(record[k])) / static_cast<double>(kKdaScale));
      }
      for (size_t v = 2 * keys; v < width; ++v) record[v] = static_cast<float>(random.normal());
    }
  }
}

KdaRows problem(Workspace& memory, const Cell& c, size_t scratch_bytes) {
  Random random(1);
  const int64_t slots = std::ssize(c.step.slot) + 1;
  const int64_t records = c.heads * kSegmentTokens * (2 * c.key_dim + c.value_dim);
  std::vector<float> pool(static_cast<size_t>(slots * records), std::nanf(""));
  for (size_t s = 0; s < c.step.slot.size(); ++s) {
    fill_records(std::span(pool).subspan(static_cast<size_t>(c.step.slot[s] * records), static_cast<size_t>(records)),
                 c, c.heads, c.step.position[s], random);
  }
  const int64_t rows = total_rows(c.step), keys = c.heads * c.key_dim, values = c.heads * c.value_dim;
  std::vector<float> decay(static_cast<size_t>(rows * keys)), beta(static_cast<size_t>(rows * c.heads));
  for (float& g : decay) g = static_cast<float>(c.low + (c.high - c.low) * random.uniform());
  for (float& b : beta) b = static_cast<float>(random.uniform());
  return {.q = memory.rows(rows, keys, c.dtype, random.normals(rows * keys)),
          .k = memory.rows(rows, keys, c.dtype, random.normals(rows * keys)),
          .v = memory.rows(rows, values, c.dtype, random.normals(rows * values)),
          .decay = memory.matrix<float>(rows, keys, decay),
          .beta = memory.matrix<float>(rows, c.heads, beta),
          .state = memory.vector(random.normals(slots * values * c.key_dim, 0.3)),
          .records = memory.vector(pool),
          .heads = c.heads,
          .key_dim = c.key_dim,
          .value_dim = c.value_dim,
          .sequences = sequences(memory, c.step),
          .out = memory.poisoned_rows(rows, values, c.dtype),
          .scratch = memory.poisoned_vector<std::byte>(static_cast<int64_t>(scratch_bytes))};
}

// The states that a kernel left, as [S, A, V, K].
std::vector<float> states_of(Workspace& memory, const KdaRows& a, const Cell& c) {
  const std::vector<float> state = memory.read(View1<const float>(a.state));
  const std::vector<float> records = memory.read(View1<const float>(a.records));
  const reference::KdaPools pools = {
      {state.data(), a.state.size}, {records.data(), a.records.size}, a.heads, a.key_dim, a.value_dim};
  std::vector<float> out;
  for (size_t s = 0; s < c.step.slot.size(); ++s) {
    for (int64_t h = 0; h < a.heads; ++h) {
      const auto one = reference::recurrent_state(pools, c.step.slot[s], h, c.step.position[s] + c.step.rows[s]);
      for (const double x : one) out.push_back(static_cast<float>(x));
    }
  }
  return out;
}

}  // namespace

Report kda_rows(Device& device) {
  Report report{.op = "kda_rows", .measure = "of the row's or the state's largest value"};
  for (const Cell& c : cells()) {
    Workspace host, there(device);
    const size_t scratch = kda_rows_scratch_bytes(device, c.key_dim, c.value_dim);
    const KdaRows want = problem(host, c, scratch), got = problem(there, c, scratch);
    std::vector<double> states;
    reference::kda_rows(want, &states);
    ops::kda_rows(device, got);
    const double out = row_error(there.read(got.out), host.read(want.out), want.out.cols);
    const double state = row_error(states_of(there, got, c), std::vector<float>(states.begin(), states.end()),
                                   c.heads * c.value_dim * c.key_dim);
    // A bf16 landing of a value near a tie may fall either way: one bf16 ulp. fp32: measured 1.9e-6.
    const double budget = c.dtype == DType::kBf16 ? 0x1p-7 : 7e-6;
    report.cells.push_back({fmt::format("T={} S={} A={} K={} V={} decay {}..{} {}", want.q.rows, c.step.rows.size(),
                                        c.heads, c.key_dim, c.value_dim, c.low, c.high, name_of(c.dtype)),
                            out >= state ? out : state, budget});
  }
  return report;
}

}  // namespace nibble::ops::certify
