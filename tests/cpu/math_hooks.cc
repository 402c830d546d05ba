// Compiled once per instruction set, with the flags of its kernels.
#include "cpu/math_hooks.h"

#include "cpu/kernels/math.h"

namespace nibble::cpu::NIBBLE_ISA {
namespace {

void exp_hook(const float* x, float* y) { store(y, exp(load(x))); }
void sigmoid_hook(const float* x, float* y) { store(y, sigmoid(load(x))); }
void tanh_hook(const float* x, float* y) { store(y, tanh(load(x))); }
void land_hook(const float* x, Bf16* y) { store(y, load(x)); }
void sum_hook(const float* x, float* y) { *y = sum(load(x)); }
void sums_hook(const float* x, float* y) { native_sums(x, y); }

}  // namespace

extern const MathHooks kMathHooks;
const MathHooks kMathHooks = {exp_hook, sigmoid_hook, tanh_hook, land_hook, sum_hook, sums_hook};

}  // namespace nibble::cpu::NIBBLE_ISA
