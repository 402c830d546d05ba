// y = x * rsqrt(mean(x^2) + eps) * weight * sigmoid(gate), head by head.
#include "ops/gated_rms_norm.h"

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/kernels.h"

namespace nibble::cpu::NIBBLE_ISA {

constexpr int64_t kWork = 24;  // an exp and a division cost about as much as so many multiply-adds

void gated_rms_norm(Device& device, const ops::GatedRmsNorm& a) {
  with_dtype(a.x.dtype, [&]<class T>() {
    const int64_t width = a.weight.size, heads = a.x.cols / width;
    split(device, a.x.rows * heads, a.x.rows * a.x.cols * kWork, [&](int64_t begin, int64_t end, int) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t t = item / heads, column = item % heads * width;
        const T* x = row<T>(a.x, t) + column;
        const T* gate = row<T>(a.gate, t) + column;
        T* out = row<T>(a.out, t) + column;  // may be x: read whole before, then element by element
        const float mean = dot(x, x, width) / static_cast<float>(width);
        const F16 scale = broadcast(1.0f / __builtin_sqrtf(mean + a.eps));
        for_lanes(width, [&](int64_t k, int64_t count) {
          const F16 normalised = load_n(x + k, count) * scale * load_n(a.weight.data + k, count);
          store_n(out + k, normalised * sigmoid(load_n(gate + k, count)), count);
        });
      }
    });
  });
}

}  // namespace nibble::cpu::NIBBLE_ISA
