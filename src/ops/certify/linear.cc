// Cells: every weight format and dtype, one row and many, widths that no vector or tile divides, several parts.
#include "ops/linear.h"

#include <fmt/format.h>

#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"

namespace nibble::ops::certify {
namespace {

using fp4::WeightFormat;

struct Cell {
  int64_t rows, outputs, cols;
  WeightFormat format;
  DType x, out;
};
constexpr Cell kCells[] = {
    {1, 64, 7168, WeightFormat::kBf16, DType::kBf16, DType::kBf16},
    {1, 64, 3584, WeightFormat::kMxfp4, DType::kBf16, DType::kBf16},
    {1, 64, 3584, WeightFormat::kNvfp4, DType::kBf16, DType::kF32},
    {65, 37, 512, WeightFormat::kMxfp4, DType::kBf16, DType::kF32},
    {50, 19, 1056, WeightFormat::kMxfp4, DType::kF32, DType::kF32},
    {7, 33, 1040, WeightFormat::kNvfp4, DType::kF32, DType::kF32},
    {1, 130, 300, WeightFormat::kFp8Block, DType::kBf16, DType::kF32},
    {5, 130, 300, WeightFormat::kFp8Block, DType::kF32, DType::kF32},
    {1, 64, 7168, WeightFormat::kMxfp8, DType::kBf16, DType::kBf16},
    {66, 35, 544, WeightFormat::kMxfp8, DType::kBf16, DType::kF32},
    {3, 33, 1056, WeightFormat::kMxfp8, DType::kF32, DType::kF32},
    {1, 5, 77, WeightFormat::kF32, DType::kF32, DType::kF32},
    {51, 16, 1300, WeightFormat::kF32, DType::kF32, DType::kF32},
    {3, 17, 515, WeightFormat::kBf16, DType::kBf16, DType::kF32},
    {2, 1, 1, WeightFormat::kBf16, DType::kF32, DType::kF32},
    // More than the workspaces of a CPU have at first.
    {130, 65, 18720, WeightFormat::kMxfp4, DType::kBf16, DType::kF32},
};

// Two parts, the second of half the rows.
Linear problem(Workspace& memory, const Cell& c) {
  Random random(1);
  Linear args = {.x = memory.rows(c.rows, c.cols, c.x, random.normals(c.rows * c.cols)), .parts = {}, .part_count = 2};
  for (const int p : {0, 1}) {
    const int64_t outputs = p == 0 ? c.outputs : (c.outputs + 1) / 2;
    args.parts[p] = {memory.weight(c.format, outputs, c.cols, random, 0.02),
                     memory.poisoned_rows(c.rows, outputs, c.out)};
  }
  return args;
}

}  // namespace

Report linear(Device& device) {
  Report report{.op = "linear", .measure = "of the row's largest value"};
  for (const Cell& c : kCells) {
    Workspace host, there(device);
    const Linear want = problem(host, c), got = problem(there, c);
    reference::linear(want);
    ops::linear(device, got);
    double error = 0;
    for (const int p : {0, 1}) {
      const Rows& out = want.parts[p].out;
      const double of_part = row_error(there.read(got.parts[p].out), host.read(out), out.cols);
      if (!(of_part <= error)) error = of_part;  // keeps a NaN
    }
    const double budget = c.out == DType::kBf16 ? 0x1p-8 : 2e-6;
    report.cells.push_back({fmt::format("T={} N={} K={} {} {} to {}", c.rows, c.outputs, c.cols, fp4::name_of(c.format),
                                        name_of(c.x), name_of(c.out)),
                            error, budget});
  }
  return report;
}

}  // namespace nibble::ops::certify
