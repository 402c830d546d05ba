#include "cpu/isa.h"

#include <array>

#include "base/matrix_tiles.h"
#include "ops/kernel_table.h"

namespace nibble::cpu {
namespace portable {
extern const ops::KernelTable kKernels;
}
#ifdef NIBBLE_X86
namespace avx2 {
extern const ops::KernelTable kKernels;
}
namespace avx512 {
extern const ops::KernelTable kKernels;
}
namespace avx512bf16 {
extern const ops::KernelTable kKernels;
}
namespace amx {
extern const ops::KernelTable kKernels;
}
#endif

std::span<const Isa> instruction_sets() {
#ifdef NIBBLE_X86
  static const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  static const bool pairs = avx512 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vbmi");
  static const std::array<Isa, 5> all = {
      Isa{"portable", &portable::kKernels, true, "nothing"},
      Isa{"avx2", &avx2::kKernels, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"), "AVX2 and FMA"},
      Isa{"avx512", &avx512::kKernels, avx512, "AVX-512 F, BW, VL and DQ"},
      Isa{"avx512bf16", &avx512bf16::kKernels, pairs, "AVX-512 F, BW, VL, DQ, BF16 and VBMI"},
      Isa{"amx", &amx::kKernels, pairs && may_use_matrix_tiles(),
          "AVX-512 F, BW, VL, DQ, BF16 and VBMI, AMX TILE and BF16, and Linux 5.16 or later"}};
#else
  static const std::array<Isa, 1> all = {Isa{"portable", &portable::kKernels, true, "nothing"}};
#endif
  return all;
}

// The last that is there, but for two on Intel's processors (docs/performance.md): `vdpbf16ps` has half of the products
// of fp32 multiply-adds there, and matrix tiles, many times as fast for prompts, are a quarter slower for one row.
const Isa& best_isa() {
  const Isa* best = &instruction_sets().front();
  for (const Isa& isa : instruction_sets()) {
#ifdef NIBBLE_X86
    if (isa.kernels == &avx512bf16::kKernels && __builtin_cpu_is("intel")) continue;
    if (isa.kernels == &amx::kKernels) continue;
#endif
    if (isa.available) best = &isa;
  }
  return *best;
}

}  // namespace nibble::cpu
