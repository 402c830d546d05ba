// Cells: K3's router, more experts than a vector count divides, k = 1 and k = E. Seeds decide: see the budget.
#include "ops/moe_route.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"

namespace nibble::ops::certify {
namespace {

struct Cell {
  int64_t rows, experts, k;
};
constexpr Cell kCells[] = {{1, 896, 16}, {8, 896, 16}, {65, 896, 16}, {3, 17, 16},
                           {1, 16, 16},  {2, 7, 1},    {4, 1025, 8},  {2, 1025, 1025}};

MoeRoute problem(Workspace& memory, const Cell& c) {
  Random random(1);
  return {.logits = memory.matrix(c.rows, c.experts, random.normals(c.rows * c.experts)),
          .bias = memory.vector(random.normals(c.experts, 0.1)),
          .ids = memory.poisoned_matrix<int32_t>(c.rows, c.k),
          .weights = memory.poisoned_matrix<float>(c.rows, c.k),
          .scale = 2.827f};
}

// The worst relative error of a weight; infinite if any id differs, for a wrong expert is never close.
double error_of(Workspace& there, const MoeRoute& got, Workspace& host, const MoeRoute& want) {
  if (there.read(got.ids) != host.read(want.ids)) return std::numeric_limits<double>::infinity();
  const std::vector<float> g = there.read(got.weights), w = host.read(want.weights);
  double worst = 0;
  for (size_t i = 0; i < w.size(); ++i) {
    const double error = std::fabs(static_cast<double>(g[i]) / static_cast<double>(w[i]) - 1);
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

}  // namespace

Report moe_route(Device& device) {
  Report report{.op = "moe_route", .measure = "relative, of a weight; infinite if an id differs"};
  for (const Cell& c : kCells) {
    Workspace host, there(device);
    const MoeRoute want = problem(host, c), got = problem(there, c);
    reference::moe_route(want);
    ops::moe_route(device, got);
    report.cells.push_back(
        {fmt::format("T={} E={} k={}", c.rows, c.experts, c.k), error_of(there, got, host, want), 1e-6});
  }
  return report;
}

}  // namespace nibble::ops::certify
