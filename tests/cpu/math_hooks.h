// The kernels' math functions on sixteen floats, one table an instruction set.
#pragma once

namespace nibble::cpu {

struct MathHooks {
  void (*exp)(const float* x, float* y);
  void (*sigmoid)(const float* x, float* y);
  void (*tanh)(const float* x, float* y);
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
#endif

}  // namespace nibble::cpu
