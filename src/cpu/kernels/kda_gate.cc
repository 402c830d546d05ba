// decay = lower_bound * sigmoid(e^a_log * (gate + dt_bias)), beta = sigmoid(beta).
#include "ops/kda_gate.h"

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/kernels.h"

namespace nibble::cpu::NIBBLE_ISA {

constexpr int64_t kWork = 24;  // an exp and a division cost about as much as so many multiply-adds

void kda_gate(Device& device, const ops::KdaGate& a) {
  with_dtype(a.gate.dtype, [&]<class T>() {
    const int64_t heads = a.a_log.size, key_dim = a.gate.cols / heads;
    split(device, a.gate.rows * heads, a.gate.rows * a.gate.cols * kWork, [&](int64_t begin, int64_t end, int) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t t = item / heads, h = item % heads;
        const T* gate = row<T>(a.gate, t) + h * key_dim;
        const float* bias = a.dt_bias.data + h * key_dim;
        float* decay = a.decay.row(t) + h * key_dim;
        const F16 rate = exp(broadcast(a.a_log.data[h])), bound = broadcast(a.lower_bound);
        for_lanes(key_dim, [&](int64_t k, int64_t count) {
          store_n(decay + k, bound * sigmoid(rate * (load_n(gate + k, count) + load_n(bias + k, count))), count);
        });
        store_head(a.beta_out.row(t) + h, sigmoid(load_head(row<T>(a.beta, t) + h, 1)), 1);
      }
    });
  });
}

}  // namespace nibble::cpu::NIBBLE_ISA
