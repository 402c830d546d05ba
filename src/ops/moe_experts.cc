#include "ops/moe_experts.h"

#include <vector>

#include "base/device.h"
#include "ops/check.h"
#include "ops/kernel_table.h"
#include "ops/reference.h"

namespace nibble::ops {
namespace {

constexpr const char* kOp = "moe_experts";

void check_bank(const ExpertBank& bank, int64_t experts, int64_t rows, int64_t cols) {
  require(bank.experts.size == experts, kOp, "banks have the same experts");
  require(bank.rows == rows && bank.cols == cols, kOp, "w1 and w3 are [F, L], w2 is [L, F]");
  require(cols % group_columns(bank.format) == 0, kOp, "columns are a multiple of the format's group");
}

void check(const MoeExperts& a) {
  require(a.w1.experts.size > 0, kOp, "at least one expert");
  check_bank(a.w1, a.w1.experts.size, a.w1.rows, a.x.cols);
  check_bank(a.w3, a.w1.experts.size, a.w1.rows, a.x.cols);
  check_bank(a.w2, a.w1.experts.size, a.x.cols, a.w1.rows);
  require(a.w1.format == a.w3.format, kOp, "w1 and w3 have one format");
  require(a.ids.rows == a.x.rows && a.weights.rows == a.x.rows && a.weights.cols == a.ids.cols, kOp,
          "ids and weights are [T, k]");
  require(a.beta > 0 && a.linear_beta > 0, kOp, "betas are positive");
  require(a.out.rows == a.x.rows && a.out.cols == a.x.cols && a.out.dtype == a.x.dtype, kOp,
          "out has x's shape and dtype");
  require(!overlap(a.out, a.x) && !overlap(a.out, a.ids) && !overlap(a.out, a.weights), kOp, "out apart from inputs");
  require(!overlap(a.scratch, a.out) && !overlap(a.scratch, a.x), kOp, "scratch apart from x and out");
}

// Sum over the chosen experts of one row: y += weight * (w2 situ(w1 x, w3 x)).
void add_expert(const MoeExperts& a, int64_t t, int64_t choice, std::vector<double>& y) {
  const auto e = a.ids.row(t)[choice];
  std::vector<float> hidden(static_cast<size_t>(a.w1.rows));
  const Rows h = {hidden.data(), a.x.dtype, 1, a.w1.rows, a.w1.rows};
  for (int64_t f = 0; f < a.w1.rows; ++f) {
    const double gate = landed(dot(a.w1.experts.data[e], f, a.x, t), a.x.dtype);
    const double up = landed(dot(a.w3.experts.data[e], f, a.x, t), a.x.dtype);
    put(h, 0, f, situ_value(gate, up, a.beta, a.linear_beta));
  }
  for (int64_t i = 0; i < a.x.cols; ++i) {
    const double down = landed(dot(a.w2.experts.data[e], i, h, 0), a.x.dtype);
    y[static_cast<size_t>(i)] += static_cast<double>(a.weights.row(t)[choice]) * down;
  }
}

}  // namespace

size_t moe_experts_scratch_bytes(const Device& device, int64_t rows, int64_t top_k, int64_t experts, int64_t latent_dim,
                                 int64_t expert_dim) {
  return device.kernels().scratch->moe_experts(device, rows, top_k, experts, latent_dim, expert_dim);
}

void moe_experts(Device& device, const MoeExperts& args) {
  check(args);
  const size_t scratch =
      moe_experts_scratch_bytes(device, args.x.rows, args.ids.cols, args.w1.experts.size, args.x.cols, args.w1.rows);
  require(static_cast<size_t>(args.scratch.size) >= scratch, kOp, "scratch of moe_experts_scratch_bytes");
  if (args.x.rows != 0) device.kernels().moe_experts(device, args);
}

void reference::moe_experts(const MoeExperts& args) {
  check(args);
  for (int64_t t = 0; t < args.x.rows; ++t) {
    std::vector<double> y(static_cast<size_t>(args.x.cols));
    for (int64_t choice = 0; choice < args.ids.cols; ++choice) add_expert(args, t, choice, y);
    for (int64_t i = 0; i < args.x.cols; ++i) put(args.out, t, i, y[static_cast<size_t>(i)]);
  }
}

}  // namespace nibble::ops
