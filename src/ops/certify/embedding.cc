// Cells: both table formats into both dtypes, ids outside the table among them.
#include "ops/embedding.h"

#include <fmt/format.h>

#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"

namespace nibble::ops::certify {
namespace {

struct Cell {
  int64_t tokens, rows, cols;
  fp4::WeightFormat format;
  DType dtype;
};
constexpr Cell kCells[] = {{1, 320, 7168, fp4::WeightFormat::kBf16, DType::kBf16},
                           {65, 320, 512, fp4::WeightFormat::kBf16, DType::kF32},
                           {5, 7, 17, fp4::WeightFormat::kF32, DType::kF32},
                           {5, 7, 33, fp4::WeightFormat::kF32, DType::kBf16}};

Embedding problem(Workspace& memory, const Cell& c) {
  Random random(1);
  std::vector<int32_t> tokens(static_cast<size_t>(c.tokens));
  for (int32_t& token : tokens) token = static_cast<int32_t>(random.below(c.rows + 2) - 1);  // -1 and N are unknown
  return {.tokens = memory.vector(tokens),
          .table = memory.weight(c.format, c.rows, c.cols, random, 1.0),
          .out = memory.poisoned_rows(c.tokens, c.cols, c.dtype)};
}

}  // namespace

Report embedding(Device& device) {
  Report report{.op = "embedding", .measure = "of the row's largest value"};
  for (const Cell& c : kCells) {
    Workspace host, there(device);
    const Embedding want = problem(host, c), got = problem(there, c);
    reference::embedding(want);
    ops::embedding(device, got);
    report.cells.push_back(
        {fmt::format("T={} N={} D={} {} to {}", c.tokens, c.rows, c.cols, fp4::name_of(c.format), name_of(c.dtype)),
         row_error(there.read(got.out), host.read(want.out), c.cols), 0.0});  // copies: no error at all
  }
  return report;
}

}  // namespace nibble::ops::certify
