// What the CPU's kernels want as scratch: a slice for each worker, or what all of them share.
#include "cpu/scratch.h"

#include "base/device.h"
#include "ops/kda_rows.h"
#include "ops/kernel_table.h"
#include "ops/mla_scratch.h"
#include "ops/moe_experts.h"
#include "ops/sample.h"

namespace nibble::cpu {
namespace {

size_t floats(int64_t count) { return static_cast<size_t>(count) * sizeof(float); }

size_t kda_rows(const Device& device, int64_t key_dim, int64_t value_dim) {
  return floats(device.concurrency() * ops::kda_rows_scratch_floats(key_dim, value_dim));
}

size_t mla_attention(const Device& device, int64_t latent_dim, int64_t nope_dim, int64_t shared_dim, int64_t value_dim,
                     int64_t max_positions) {
  const int64_t pages = (max_positions + ops::kPageTokens - 1) / ops::kPageTokens;
  return floats(device.concurrency() * ops::MlaScratch(latent_dim, nope_dim, shared_dim, value_dim, pages).floats);
}

size_t moe_experts(const Device&, int64_t rows, int64_t top_k, int64_t experts, int64_t latent_dim,
                   int64_t expert_dim) {
  return static_cast<size_t>(ops::moe_experts_scratch(rows, top_k, experts, latent_dim, expert_dim).bytes);
}

size_t sample(const Device& device, int64_t vocabulary) {
  return static_cast<size_t>(device.concurrency() * ops::sample_slice_bytes(vocabulary));
}

}  // namespace

const ops::ScratchSizes kScratch = {
    .kda_rows = kda_rows, .mla_attention = mla_attention, .moe_experts = moe_experts, .sample = sample};

}  // namespace nibble::cpu
