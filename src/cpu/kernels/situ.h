// The SiTU activation on sixteen lanes.
#pragma once

#include "cpu/kernels/math.h"

namespace nibble::cpu::NIBBLE_ISA {

NIBBLE_INLINE F16 situ(F16 gate, F16 up, float beta, float linear_beta) {
  const F16 b = broadcast(beta), l = broadcast(linear_beta);
  return (b * tanh(gate / b) * sigmoid(gate)) * (l * tanh(up / l));
}

}  // namespace nibble::cpu::NIBBLE_ISA
