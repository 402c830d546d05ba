// y = w * land(x * rsqrt(mean(x^2) + eps)).
#include "ops/rms_norm.h"

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/kernels.h"

namespace nibble::cpu::NIBBLE_ISA {

void rms_norm(Device& device, const ops::RmsNorm& a) {
  with_dtype(a.x.dtype, [&]<class T>() {
    split(device, a.x.rows, a.x.rows * a.x.cols * 2, [&](int64_t begin, int64_t end, int) {
      const int64_t n = a.x.cols;
      for (int64_t t = begin; t < end; ++t) {
        const T* x = row<T>(a.x, t);
        T* out = row<T>(a.out, t);
        const float mean = dot(x, x, n) / static_cast<float>(n);
        const F16 scale = broadcast(1.0f / __builtin_sqrtf(mean + a.eps));
        for_lanes(n, [&](int64_t k, int64_t count) {
          T normalised[kLanes];
          store(normalised, load_n(x + k, count) * scale);
          store_n(out + k, load(normalised) * load_n(a.weight.data + k, count), count);
        });
      }
    });
  });
}

}  // namespace nibble::cpu::NIBBLE_ISA
