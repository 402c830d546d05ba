// Cells: one token and chunks that cross pages, sequences with no rows, both dtypes. The whole pool is compared, so a
// stray write shows too.
#include "ops/mla_append.h"

#include <fmt/format.h>

#include "ops/certify/entries.h"
#include "ops/certify/steps.h"

namespace nibble::ops::certify {
namespace {

struct Cell {
  const char* name;
  std::vector<Span> spans;
  int64_t latent, shared;
  DType dtype;
};
const std::vector<Cell>& cells() {
  static const std::vector<Cell> all = {{"one token", {{0, 1}}, 512, 64, DType::kBf16},
                                        {"chunk over a boundary", {{60, 9}}, 512, 64, DType::kBf16},
                                        {"mixed", {{63, 1}, {0, 130}, {5, 0}, {64, 3}}, 33, 7, DType::kF32}};
  return all;
}

MlaAppend problem(Workspace& memory, const Cell& c) {
  Random random(1);
  const Step step(c.spans, 3);
  const int64_t rows = step.rows(), pool = step.pages() * kPageTokens, width = c.latent + c.shared;
  return {.latent = memory.rows(rows, c.latent, c.dtype, random.normals(rows * c.latent)),
          .shared_key = memory.rows(rows, c.shared, c.dtype, random.normals(rows * c.shared)),
          .sequences = step.place(memory),
          .pool = memory.rows(pool, width, c.dtype, random.normals(pool * width))};
}

}  // namespace

Report mla_append(Device& device) {
  Report report{.op = "mla_append", .measure = "of the row's largest value"};
  for (const Cell& c : cells()) {
    Workspace host, there(device);
    const MlaAppend want = problem(host, c), got = problem(there, c);
    reference::mla_append(want);
    ops::mla_append(device, got);
    report.cells.push_back({fmt::format("{} R={} P={} {}", c.name, c.latent, c.shared, name_of(c.dtype)),
                            row_error(there.read(got.pool), host.read(want.pool), c.latent + c.shared),
                            0.0});  // copies are exact
  }
  return report;
}

}  // namespace nibble::ops::certify
