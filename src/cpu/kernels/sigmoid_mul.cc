// out = x * land(sigmoid(gate)).
#include "ops/sigmoid_mul.h"

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/kernels.h"

namespace nibble::cpu::NIBBLE_ISA {

void sigmoid_mul(Device& device, const ops::SigmoidMul& a) {
  with_dtype(a.out.dtype, [&]<class T>() {
    split(device, a.out.rows, a.out.rows * a.out.cols * 24, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) {
        const T *x = row<T>(a.x, t), *gate = row<T>(a.gate, t);
        T* out = row<T>(a.out, t);
        for_lanes(a.out.cols, [&](int64_t k, int64_t count) {
          T factor[kLanes];
          store(factor, sigmoid(load_n(gate + k, count)));
          store_n(out + k, load_n(x + k, count) * load(factor), count);
        });
      }
    });
  });
}

}  // namespace nibble::cpu::NIBBLE_ISA
