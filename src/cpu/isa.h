// The instruction sets that the CPU kernels are compiled for, and which of them this machine has.
#pragma once

#include <span>
#include <string_view>

namespace nibble::ops {
struct KernelTable;
}

namespace nibble::cpu {

struct Isa {
  std::string_view name;  // "portable", "avx2", "avx512", "avx512bf16", "amx"
  const ops::KernelTable* kernels = nullptr;
  bool available = false;
  std::string_view needs;  // what the machine would need, for refusals and `explain`
};

// All, from the slowest to the fastest.
std::span<const Isa> instruction_sets();
// The fastest that this machine has.
const Isa& best_isa();

}  // namespace nibble::cpu
