// Cells: both dtypes, widths that no vector divides, gates from the flat to the saturated.
#include "ops/sigmoid_mul.h"

#include <fmt/format.h>

#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"

namespace nibble::ops::certify {
namespace {

struct Cell {
  int64_t rows, cols;
  DType dtype;
  double gate_scale;
};
constexpr Cell kCells[] = {{1, 12288, DType::kBf16, 3.0}, {65, 33, DType::kBf16, 30.0}, {3, 17, DType::kBf16, 0.1},
                           {1, 12288, DType::kF32, 3.0},  {5, 100, DType::kF32, 30.0},  {2, 1, DType::kF32, 0.1}};

SigmoidMul problem(Workspace& memory, const Cell& c) {
  Random random(1);
  return {.x = memory.rows(c.rows, c.cols, c.dtype, random.normals(c.rows * c.cols)),
          .gate = memory.rows(c.rows, c.cols, c.dtype, random.normals(c.rows * c.cols, c.gate_scale)),
          .out = memory.poisoned_rows(c.rows, c.cols, c.dtype)};
}

}  // namespace

Report sigmoid_mul(Device& device) {
  Report report{.op = "sigmoid_mul", .measure = "of the row's largest value"};
  for (const Cell& c : kCells) {
    Workspace host, there(device);
    const SigmoidMul want = problem(host, c), got = problem(there, c);
    reference::sigmoid_mul(want);
    ops::sigmoid_mul(device, got);
    // Measured: 1.1e-7 in fp32. A bf16 landing of a value near a tie may fall either way: one bf16 ulp, twice.
    const double budget = c.dtype == DType::kBf16 ? 0x1p-7 : 4e-7;
    report.cells.push_back({fmt::format("T={} n={} {} gates of {}", c.rows, c.cols, name_of(c.dtype), c.gate_scale),
                            row_error(there.read(got.out), host.read(want.out), c.cols), budget});
  }
  return report;
}

}  // namespace nibble::ops::certify
