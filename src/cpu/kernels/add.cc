// out = a + b, or a copy of a.
#include "ops/add.h"

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/kernels.h"

namespace nibble::cpu::NIBBLE_ISA {

void add(Device& device, const ops::Add& args) {
  with_dtype(args.out.dtype, [&]<class T>() {
    split(device, args.out.rows, args.out.rows * args.out.cols, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) {
        const T *a = row<T>(args.a, t), *b = row<T>(args.b, t);
        T* out = row<T>(args.out, t);
        for_lanes(args.out.cols, [&](int64_t k, int64_t count) {
          const F16 x = load_n(a + k, count);
          store_n(out + k, args.b.rows == 0 ? x : x + load_n(b + k, count), count);
        });
      }
    });
  });
}

}  // namespace nibble::cpu::NIBBLE_ISA
