// Copies each row's [latent | shared key] to its place in its page.
#include "ops/mla_append.h"

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/kernels.h"

namespace nibble::cpu::NIBBLE_ISA {

void mla_append(Device& device, const ops::MlaAppend& a) {
  with_dtype(a.pool.dtype, [&]<class T>() {
    const auto latent_bytes = static_cast<size_t>(a.latent.cols) * sizeof(T);
    const auto key_bytes = static_cast<size_t>(a.shared_key.cols) * sizeof(T);
    pool(device).parallel_for(a.latent.rows, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t s = a.sequences.row_sequence.data[t];
        const int64_t position = a.sequences.position.data[s] + (t - a.sequences.row_begin.data[s]);
        const int64_t page = a.sequences.pages.row(s)[position / ops::kPageTokens];
        T* to = row<T>(a.pool, page * ops::kPageTokens + position % ops::kPageTokens);
        __builtin_memcpy(to, row<T>(a.latent, t), latent_bytes);
        __builtin_memcpy(to + a.latent.cols, row<T>(a.shared_key, t), key_bytes);
      }
    });
  });
}

}  // namespace nibble::cpu::NIBBLE_ISA
