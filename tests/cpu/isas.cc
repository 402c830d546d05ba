#include <stdexcept>

#include "cpu/isa.h"
#include "cpu/math_hooks.h"

namespace nibble::cpu {

const MathHooks& math_hooks(std::string_view isa) {
  if (isa == "portable") return portable::kMathHooks;
#ifdef __x86_64__
  if (isa == "avx2") return avx2::kMathHooks;
  if (isa == "avx512") return avx512::kMathHooks;
  if (isa == "avx512bf16") return avx512bf16::kMathHooks;
  if (isa == "amx") return amx::kMathHooks;
#endif
  throw std::out_of_range("no math hooks for " + std::string(isa));
}

std::vector<std::string> available_isas() {
  std::vector<std::string> out;
  for (const Isa& isa : instruction_sets()) {
    if (isa.available) out.emplace_back(isa.name);
  }
  return out;
}

}  // namespace nibble::cpu
