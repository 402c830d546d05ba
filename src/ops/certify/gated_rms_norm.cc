// Cells: K3's heads for one row and many, head widths that no vector divides, both dtypes.
#include "ops/gated_rms_norm.h"

#include <fmt/format.h>

#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"

namespace nibble::ops::certify {
namespace {

struct Cell {
  int64_t rows, heads, width;
  DType dtype;
};
constexpr Cell kCells[] = {{1, 96, 128, DType::kBf16}, {17, 8, 128, DType::kBf16}, {3, 5, 40, DType::kBf16},
                           {1, 96, 128, DType::kF32},  {65, 2, 64, DType::kF32},   {2, 3, 17, DType::kF32}};

GatedRmsNorm problem(Workspace& memory, const Cell& c) {
  Random random(1);
  const int64_t cols = c.heads * c.width;
  return {.x = memory.rows(c.rows, cols, c.dtype, random.normals(c.rows * cols, 0.05)),
          .gate = memory.rows(c.rows, cols, c.dtype, random.normals(c.rows * cols, 4.0)),
          .weight = memory.vector(random.normals(c.width)),
          .eps = 1e-5f,
          .out = memory.poisoned_rows(c.rows, cols, c.dtype)};
}

}  // namespace

Report gated_rms_norm(Device& device) {
  Report report{.op = "gated_rms_norm", .measure = "of the head's largest value"};
  for (const Cell& c : kCells) {
    Workspace host, there(device);
    const GatedRmsNorm want = problem(host, c), got = problem(there, c);
    reference::gated_rms_norm(want);
    ops::gated_rms_norm(device, got);
    // A bf16 landing of a value near a tie may fall either way: one bf16 ulp. fp32: measured 2.4e-7.
    const double budget = c.dtype == DType::kBf16 ? 0x1p-7 : 8e-7;
    report.cells.push_back({fmt::format("T={} A={} V={} {}", c.rows, c.heads, c.width, name_of(c.dtype)),
                            row_error(there.read(got.out), host.read(want.out), c.width), budget});
  }
  return report;
}

}  // namespace nibble::ops::certify
