// Cells: K3's widths, widths that no vector divides, both dtypes; inputs well past both caps.
#include "ops/situ.h"

#include <fmt/format.h>

#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"

namespace nibble::ops::certify {
namespace {

struct Cell {
  int64_t rows, cols;
  DType dtype;
  double scale;
};
constexpr Cell kCells[] = {{1, 3072, DType::kBf16, 3.0}, {33, 6144, DType::kBf16, 20.0}, {3, 17, DType::kBf16, 1.0},
                           {1, 3072, DType::kF32, 3.0},  {8, 515, DType::kF32, 60.0},    {2, 1, DType::kF32, 1.0}};

Situ problem(Workspace& memory, const Cell& c) {
  Random random(1);
  return {.gate = memory.rows(c.rows, c.cols, c.dtype, random.normals(c.rows * c.cols, c.scale)),
          .up = memory.rows(c.rows, c.cols, c.dtype, random.normals(c.rows * c.cols, c.scale)),
          .beta = 4.0f,
          .linear_beta = 25.0f,
          .out = memory.poisoned_rows(c.rows, c.cols, c.dtype)};
}

}  // namespace

Report situ(Device& device) {
  Report report{.op = "situ", .measure = "of the row's largest value"};
  for (const Cell& c : kCells) {
    Workspace host, there(device);
    const Situ want = problem(host, c), got = problem(there, c);
    reference::situ(want);
    ops::situ(device, got);
    const double budget = c.dtype == DType::kBf16 ? 0x1p-7 : 4e-7;
    report.cells.push_back({fmt::format("T={} n={} {}", c.rows, c.cols, name_of(c.dtype)),
                            row_error(there.read(got.out), host.read(want.out), c.cols), budget});
  }
  return report;
}

}  // namespace nibble::ops::certify
