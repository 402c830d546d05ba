// Cells: K3's heads for one row and many, odd widths, both dtypes; gates from far below zero to far above it.
#include "ops/kda_gate.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"

namespace nibble::ops::certify {
namespace {

struct Cell {
  int64_t rows, heads, width;
  DType dtype;
  float lower_bound;
};
constexpr Cell kCells[] = {{1, 96, 128, DType::kBf16, -5.0f},
                           {9, 96, 128, DType::kF32, -5.0f},
                           {33, 4, 64, DType::kF32, -5.0f},
                           {3, 5, 40, DType::kBf16, -0.25f},
                           {2, 3, 1, DType::kF32, -1.0f}};

KdaGate problem(Workspace& memory, const Cell& c) {
  Random random(1);
  const int64_t cols = c.heads * c.width;
  return {.gate = memory.rows(c.rows, cols, c.dtype, random.normals(c.rows * cols, 4.0)),
          .beta = memory.rows(c.rows, c.heads, c.dtype, random.normals(c.rows * c.heads, 4.0)),
          .a_log = memory.vector(random.normals(c.heads, 0.7)),
          .dt_bias = memory.vector(random.normals(cols, 2.0)),
          .lower_bound = c.lower_bound,
          .decay = memory.poisoned_matrix<float>(c.rows, cols),
          .beta_out = memory.poisoned_matrix<float>(c.rows, c.heads)};
}

}  // namespace

Report kda_gate(Device& device) {
  Report report{.op = "kda_gate", .measure = "of the row's largest value"};
  for (const Cell& c : kCells) {
    Workspace host, there(device);
    const KdaGate want = problem(host, c), got = problem(there, c);
    reference::kda_gate(want);
    ops::kda_gate(device, got);
    const double decay = row_error(there.read(got.decay), host.read(want.decay), want.decay.cols);
    const double beta = row_error(there.read(got.beta_out), host.read(want.beta_out), c.heads);
    report.cells.push_back(
        {fmt::format("T={} A={} K={} {} above {}", c.rows, c.heads, c.width, name_of(c.dtype), c.lower_bound),
         decay >= beta ? decay : beta, 5e-7});  // measured 1.4e-7
  }
  return report;
}

}  // namespace nibble::ops::certify
