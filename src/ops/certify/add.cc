// Cells: both dtypes, a sum and a copy, widths that no vector divides.
#include "ops/add.h"

#include <fmt/format.h>

#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"

namespace nibble::ops::certify {
namespace {

struct Cell {
  int64_t rows, cols;
  DType dtype;
  bool copy;
};
constexpr Cell kCells[] = {{1, 7168, DType::kBf16, false}, {65, 33, DType::kBf16, false}, {3, 100, DType::kBf16, true},
                           {1, 7168, DType::kF32, false},  {5, 17, DType::kF32, false},   {2, 1, DType::kF32, true}};

Add problem(Workspace& memory, const Cell& c) {
  Random random(1);
  const int64_t b_rows = c.copy ? 0 : c.rows;
  return {.a = memory.rows(c.rows, c.cols, c.dtype, random.normals(c.rows * c.cols)),
          .b = memory.rows(b_rows, c.cols, c.dtype, random.normals(b_rows * c.cols, 20.0)),
          .out = memory.poisoned_rows(c.rows, c.cols, c.dtype)};
}

}  // namespace

Report add(Device& device) {
  Report report{.op = "add", .measure = "of the row's largest value"};
  for (const Cell& c : kCells) {
    Workspace host, there(device);
    const Add want = problem(host, c), got = problem(there, c);
    reference::add(want);
    ops::add(device, got);
    // Measured: 0. A sum of two bf16 of like size is exact in fp32, and one fp32 sum rounds as the reference's does.
    report.cells.push_back({fmt::format("T={} n={} {}{}", c.rows, c.cols, name_of(c.dtype), c.copy ? " copy" : ""),
                            row_error(there.read(got.out), host.read(want.out), c.cols), 0.0});
  }
  return report;
}

}  // namespace nibble::ops::certify
