// Cells: one source (the identity), K3's nine, many; scores from the flat to the nearly certain.
#include "ops/attn_res_mix.h"

#include <fmt/format.h>

#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"

namespace nibble::ops::certify {
namespace {

struct Cell {
  int64_t sources, rows, cols;
  DType dtype;
  double proj_scale;  // scores have about this times sqrt(D) as their deviation
};
constexpr Cell kCells[] = {{1, 3, 7168, DType::kBf16, 0.02}, {9, 1, 7168, DType::kBf16, 0.02},
                           {9, 65, 192, DType::kBf16, 0.2},  {64, 2, 33, DType::kBf16, 0.5},
                           {1, 2, 17, DType::kF32, 0.02},    {9, 5, 7168, DType::kF32, 0.02},
                           {4, 7, 192, DType::kF32, 0.2},    {3, 2, 1, DType::kF32, 0.5}};

AttnResMix problem(Workspace& memory, const Cell& c) {
  Random random(1);
  const int64_t rows = c.sources * c.rows;
  return {.sources = memory.rows(rows, c.cols, c.dtype, random.normals(rows * c.cols, 3.0)),
          .norm = memory.vector(random.normals(c.cols)),
          .proj = memory.vector(random.normals(c.cols, c.proj_scale)),
          .eps = 1e-5f,
          .out = memory.poisoned_rows(c.rows, c.cols, c.dtype)};
}

}  // namespace

Report attn_res_mix(Device& device) {
  Report report{.op = "attn_res_mix", .measure = "of the row's largest value"};
  for (const Cell& c : kCells) {
    Workspace host, there(device);
    const AttnResMix want = problem(host, c), got = problem(there, c);
    reference::attn_res_mix(want);
    ops::attn_res_mix(device, got);
    // Measured: 7.5e-7 in fp32. A bf16 landing of a value near a tie may fall either way: one bf16 ulp.
    const double budget = c.dtype == DType::kBf16 ? 0x1p-7 : 2e-6;
    report.cells.push_back({fmt::format("n={} T={} D={} {}", c.sources, c.rows, c.cols, name_of(c.dtype)),
                            row_error(there.read(got.out), host.read(want.out), c.cols), budget});
  }
  return report;
}

}  // namespace nibble::ops::certify
