// Cells: one row and many, K3's widths, widths that no vector divides, both dtypes.
#include "ops/rms_norm.h"

#include <fmt/format.h>

#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"

namespace nibble::ops::certify {
namespace {

struct Cell {
  int64_t rows, cols;
  DType dtype;
};
constexpr Cell kCells[] = {{1, 7168, DType::kBf16}, {65, 3584, DType::kBf16}, {3, 17, DType::kBf16},
                           {1, 7168, DType::kF32},  {8, 512, DType::kF32},    {2, 1, DType::kF32}};

RmsNorm problem(Workspace& memory, const Cell& c) {
  Random random(1);
  return {.x = memory.rows(c.rows, c.cols, c.dtype, random.normals(c.rows * c.cols, 3.0)),
          .weight = memory.vector(random.normals(c.cols)),
          .eps = 1e-5f,
          .out = memory.poisoned_rows(c.rows, c.cols, c.dtype)};
}

}  // namespace

Report rms_norm(Device& device) {
  Report report{.op = "rms_norm", .measure = "of the row's largest value"};
  for (const Cell& c : kCells) {
    Workspace host, there(device);
    const RmsNorm want = problem(host, c), got = problem(there, c);
    reference::rms_norm(want);
    ops::rms_norm(device, got);
    // A bf16 landing of a value near a tie may fall either way: one bf16 ulp, twice.
    const double budget = c.dtype == DType::kBf16 ? 0x1p-7 : 4e-7;
    report.cells.push_back({fmt::format("T={} n={} {}", c.rows, c.cols, name_of(c.dtype)),
                            row_error(there.read(got.out), host.read(want.out), c.cols), budget});
  }
  return report;
}

}  // namespace nibble::ops::certify
