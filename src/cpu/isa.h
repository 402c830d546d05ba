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

// All, from the oldest to the newest.
std::span<const Isa> instruction_sets();
// The one that is taken where none is named: the fastest of this machine at one row.
const Isa& best_isa();

}  // namespace nibble::cpu
