// The kernels' vectors and math functions on sixteen floats, one table an instruction set.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/bf16.h"

namespace nibble::cpu {

struct MathHooks {
  void (*exp)(const float* x, float* y);
  void (*sigmoid)(const float* x, float* y);
  void (*tanh)(const float* x, float* y);
  void (*land)(const float* x, Bf16* y);
  // With the lanes in natural, split and nibble order; those that the set has not are as in natural order.
  struct Sums {
    void (*one)(const float* x, float* y);      // of sixteen
    void (*sixteen)(const float* x, float* y);  // of sixteen rows of sixteen
  };
  Sums sums[3];
};
namespace portable {
extern const MathHooks kMathHooks;
}
#ifdef __x86_64__
namespace avx2 {
extern const MathHooks kMathHooks;
}
namespace avx512 {
extern const MathHooks kMathHooks;
}
namespace avx512bf16 {
extern const MathHooks kMathHooks;
}
namespace amx {
extern const MathHooks kMathHooks;
}
#endif

// Of an instruction set by its name; throws std::out_of_range for one that this build has not.
const MathHooks& math_hooks(std::string_view isa);
// The instruction sets of this machine, to test with each.
std::vector<std::string> available_isas();

}  // namespace nibble::cpu
