// Cells: K3's three streams for one row and many, sequences that start, continue and have no rows, odd channel counts
// and tap counts, both dtypes.
#include "ops/causal_conv_silu.h"

#include <fmt/format.h>

#include <iterator>

#include "ops/certify/entries.h"
#include "ops/certify/steps.h"
#include "ops/certify/workspace.h"

namespace nibble::ops::certify {
namespace {

struct Cell {
  Ragged step;  // slot 0 is nobody's
  int64_t channels, taps;
  DType dtype;
};

CausalConvSilu problem(Workspace& memory, const Cell& c) {
  Random random(1);
  const int64_t rows = total_rows(c.step), window = (std::ssize(c.step.slot) + 1) * (c.taps - 1);
  return {.x = memory.rows(rows, c.channels, c.dtype, random.normals(rows * c.channels)),
          .weight = memory.matrix<float>(c.channels, c.taps, random.normals(c.channels * c.taps)),
          .window = memory.rows(window, c.channels, c.dtype, random.normals(window * c.channels)),
          .sequences = sequences(memory, c.step),
          .out = memory.poisoned_rows(rows, c.channels, c.dtype)};
}

std::vector<Cell> cells() {
  return {{{{1}, {7}, {1}}, 36864, 4, DType::kBf16},
          {{{65}, {0}, {1}}, 3072, 4, DType::kBf16},
          {{{1, 0, 2, 70}, {0, 5, 1, 16}, {4, 3, 2, 1}}, 100, 4, DType::kF32},
          {{{3, 1, 1}, {2, 1, 40}, {3, 1, 2}}, 17, 2, DType::kF32},
          {{{1, 9, 30}, {3, 4, 100}, {2, 3, 1}}, 33, 8, DType::kF32}};
}

}  // namespace

Report causal_conv_silu(Device& device) {
  Report report{.op = "causal_conv_silu", .measure = "of the row's largest value"};
  for (const Cell& c : cells()) {
    Workspace host, there(device);
    const CausalConvSilu want = problem(host, c), got = problem(there, c);
    reference::causal_conv_silu(want);
    ops::causal_conv_silu(device, got);
    // A bf16 landing of a value near a tie may fall either way: one bf16 ulp. fp32: measured 2.2e-7. The windows
    // must be equal.
    const double budget = c.dtype == DType::kBf16 ? 0x1p-7 : 8e-7;
    const double out = row_error(there.read(got.out), host.read(want.out), c.channels);
    const double window = row_error(there.read(got.window), host.read(want.window), 1);
    report.cells.push_back({fmt::format("T={} S={} C={} taps={} {}", want.x.rows, c.step.rows.size(), c.channels,
                                        c.taps, name_of(c.dtype)),
                            window == 0 ? out : window + 1, budget});
  }
  return report;
}

}  // namespace nibble::ops::certify
