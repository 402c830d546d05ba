// out[i] = x[rows[i]], or zeros.
#include "ops/select_rows.h"

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/kernels.h"

namespace nibble::cpu::NIBBLE_ISA {

void select_rows(Device& device, const ops::SelectRows& a) {
  with_dtype(a.out.dtype, [&]<class T>() {
    const auto bytes = static_cast<size_t>(a.out.cols) * sizeof(T);
    pool(device).parallel_for(a.out.rows, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t from = a.rows.data[i];
        if (from >= 0 && from < a.x.rows)
          __builtin_memcpy(row<T>(a.out, i), row<T>(a.x, from), bytes);
        else
          __builtin_memset(static_cast<void*>(row<T>(a.out, i)), 0, bytes);
      }
    });
  });
}

}  // namespace nibble::cpu::NIBBLE_ISA
