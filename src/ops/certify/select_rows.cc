// Cells: both dtypes, repeated rows, rows out of range.
#include "ops/select_rows.h"

#include <fmt/format.h>

#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"

namespace nibble::ops::certify {
namespace {

struct Cell {
  int64_t rows, cols, selected;
  DType dtype;
};
constexpr Cell kCells[] = {
    {64, 7168, 3, DType::kBf16}, {5, 33, 17, DType::kBf16}, {9, 512, 9, DType::kF32}, {1, 1, 2, DType::kF32}};

SelectRows problem(Workspace& memory, const Cell& c) {
  Random random(1);
  const Rows x = memory.rows(c.rows, c.cols, c.dtype, random.normals(c.rows * c.cols));
  std::vector<int32_t> rows(static_cast<size_t>(c.selected));
  for (int32_t& r : rows) r = static_cast<int32_t>(random.below(c.rows + 2)) - 1;  // -1 and T give zeros
  return {.x = x, .rows = memory.vector(rows), .out = memory.poisoned_rows(c.selected, c.cols, c.dtype)};
}

}  // namespace

Report select_rows(Device& device) {
  Report report{.op = "select_rows", .measure = "of the row's largest value"};
  for (const Cell& c : kCells) {
    Workspace host, there(device);
    const SelectRows want = problem(host, c), got = problem(there, c);
    reference::select_rows(want);
    ops::select_rows(device, got);
    report.cells.push_back({fmt::format("T={} n={} R={} {}", c.rows, c.cols, c.selected, name_of(c.dtype)),
                            row_error(there.read(got.out), host.read(want.out), c.cols), 0.0});  // copies are exact
  }
  return report;
}

}  // namespace nibble::ops::certify
