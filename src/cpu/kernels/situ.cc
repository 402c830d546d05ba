// out = situ(gate, up), element by element.
#include "cpu/kernels/situ.h"

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/kernels.h"
#include "ops/situ.h"

namespace nibble::cpu::NIBBLE_ISA {

void situ(Device& device, const ops::Situ& a) {
  with_dtype(a.gate.dtype, [&]<class T>() {
    split(device, a.gate.rows, a.gate.rows * a.gate.cols * 64, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) {
        const T *gate = row<T>(a.gate, t), *up = row<T>(a.up, t);
        T* out = row<T>(a.out, t);
        for_lanes(a.gate.cols, [&](int64_t k, int64_t count) {
          store_n(out + k, situ(load_n(gate + k, count), load_n(up + k, count), a.beta, a.linear_beta), count);
        });
      }
    });
  });
}

}  // namespace nibble::cpu::NIBBLE_ISA
