// The kernel table: constant data.
#include "cuda/kernels/kernels.h"

namespace nibble::cuda {
namespace {

size_t none(const Device&, int64_t, int64_t) { return 0; }  // kda_rows works in shared memory

constexpr ops::ScratchSizes kScratch = {.kda_rows = none,
                                        .mla_attention = mla_attention_scratch,
                                        .moe_experts = moe_experts_scratch,
                                        .sample = sample_scratch};

}  // namespace

const ops::KernelTable kKernels = {
    .name = "cuda",
#define NIBBLE_ENTRY(op, Args) .op = op,
    NIBBLE_OPS(NIBBLE_ENTRY)
#undef NIBBLE_ENTRY
        .scratch = &kScratch,
};

}  // namespace nibble::cuda
