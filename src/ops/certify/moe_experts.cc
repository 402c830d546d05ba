// Cells: every format and dtype; one row, more rows than a block of one expert, experts without rows.
#include "ops/moe_experts.h"

#include <fmt/format.h>

#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"

namespace nibble::ops::certify {
namespace {

using fp4::WeightFormat;

struct Cell {
  int64_t rows, experts, k, latent, width;
  WeightFormat format;
  DType dtype;
};
constexpr Cell kCells[] = {
    {1, 8, 4, 512, 160, WeightFormat::kMxfp4, DType::kBf16},  {5, 40, 3, 64, 96, WeightFormat::kMxfp4, DType::kF32},
    {70, 3, 2, 64, 32, WeightFormat::kNvfp4, DType::kF32},    {9, 6, 2, 48, 80, WeightFormat::kNvfp4, DType::kBf16},
    {3, 4, 4, 130, 33, WeightFormat::kFp8Block, DType::kF32}, {3, 5, 2, 37, 19, WeightFormat::kBf16, DType::kF32},
    {2, 2, 1, 1, 1, WeightFormat::kF32, DType::kF32},         {6, 5, 3, 96, 64, WeightFormat::kMxfp8, DType::kBf16}};

ExpertBank bank(Workspace& memory, const Cell& c, int64_t rows, int64_t cols, Random& random) {
  std::vector<WeightMatrix> experts;
  for (int64_t e = 0; e < c.experts; ++e) experts.push_back(memory.weight(c.format, rows, cols, random, 0.1));
  return {memory.vector(experts), c.format, rows, cols};
}

MoeExperts problem(Workspace& memory, const Cell& c) {
  Random random(1);
  std::vector<int32_t> ids;
  for (int64_t t = 0; t < c.rows; ++t) {  // k of E in ascending order: each is taken with the chance that is left
    for (int64_t e = 0, left = c.k; e < c.experts; ++e) {
      if (random.below(c.experts - e) < left) ids.push_back(static_cast<int32_t>(e)), --left;
    }
  }
  return {.x = memory.rows(c.rows, c.latent, c.dtype, random.normals(c.rows * c.latent)),
          .ids = memory.matrix(c.rows, c.k, ids),
          .weights = memory.matrix(c.rows, c.k, random.normals(c.rows * c.k)),
          .w1 = bank(memory, c, c.width, c.latent, random),
          .w3 = bank(memory, c, c.width, c.latent, random),
          .w2 = bank(memory, c, c.latent, c.width, random),
          .beta = 4.0f,
          .linear_beta = 25.0f,
          .scratch = {},
          .out = memory.poisoned_rows(c.rows, c.latent, c.dtype)};
}

}  // namespace

Report moe_experts(Device& device) {
  Report report{.op = "moe_experts", .measure = "of the row's largest value"};
  for (const Cell& c : kCells) {
    Workspace host, there(device);
    const MoeExperts want = problem(host, c);
    MoeExperts got = problem(there, c);
    got.scratch = there.poisoned_vector<std::byte>(
        static_cast<int64_t>(moe_experts_scratch_bytes(device, c.rows, c.k, c.experts, c.latent, c.width)));
    reference::moe_experts(want);
    ops::moe_experts(device, got);
    const double budget = c.dtype == DType::kBf16 ? 0x1p-6 : 2e-6;
    report.cells.push_back({fmt::format("T={} E={} k={} L={} F={} {} {}", c.rows, c.experts, c.k, c.latent, c.width,
                                        fp4::name_of(c.format), name_of(c.dtype)),
                            row_error(there.read(got.out), host.read(want.out), c.latent), budget});
  }
  return report;
}

}  // namespace nibble::ops::certify
