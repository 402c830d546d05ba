// Compiled once per instruction set, with the flags of its kernels.
#include "cpu/math_hooks.h"

#include "cpu/kernels/math.h"

namespace nibble::cpu::NIBBLE_ISA {
namespace {

void exp_hook(const float* x, float* y) { store(y, exp(load(x))); }
void sigmoid_hook(const float* x, float* y) { store(y, sigmoid(load(x))); }
void tanh_hook(const float* x, float* y) { store(y, tanh(load(x))); }
void land_hook(const float* x, Bf16* y) { store(y, load(x)); }
template <Order kOrder>
void sum_hook(const float* x, float* y) {
  *y = sum<kOrder>(from_natural<kOrder>(load(x)));
}
template <Order kOrder>
void sums_hook(const float* x, float* y) {
  float rows[kLanes * kLanes];
  for (int64_t r = 0; r < kLanes * kLanes; r += kLanes) store(rows + r, from_natural<kOrder>(load(x + r)));
  sums<kOrder>(rows, y);
}
template <Order kOrder>
constexpr MathHooks::Sums kSums = {sum_hook<kOrder>, sums_hook<kOrder>};
constexpr Order kSplitIfAny = kSplitOrder ? Order::kSplit : Order::kNatural;
constexpr Order kNibbleIfAny = kNibbleOrder ? Order::kNibble : Order::kNatural;

}  // namespace

extern const MathHooks kMathHooks;
const MathHooks kMathHooks = {
    exp_hook, sigmoid_hook, tanh_hook, land_hook, {kSums<Order::kNatural>, kSums<kSplitIfAny>, kSums<kNibbleIfAny>}};

}  // namespace nibble::cpu::NIBBLE_ISA
