// Copies each row's [latent | shared key] to its place in its page.
#include "cuda/kernels/kernel.cuh"
#include "cuda/kernels/kernels.h"
#include "ops/mla_append.h"

namespace nibble::cuda {
namespace {

template <class T>
__global__ void mla_append_kernel(ops::MlaAppend a) {
  Element e;
  if (!element(a.latent.cols + a.shared_key.cols, e)) return;
  const int64_t s = a.sequences.row_sequence.data[e.row];
  const int64_t position = a.sequences.position.data[s] + (e.row - a.sequences.row_begin.data[s]);
  const int64_t page = row(a.sequences.pages, s)[position / ops::kPageTokens];
  const int64_t latent = a.latent.cols;
  row<T>(a.pool, page * ops::kPageTokens + position % ops::kPageTokens)[e.col] =
      e.col < latent ? row<T>(a.latent, e.row)[e.col] : row<T>(a.shared_key, e.row)[e.col - latent];
}

}  // namespace

void mla_append(Device& device, const ops::MlaAppend& a) {
  with_dtype(a.pool.dtype, [&]<class T>() {
    launch(device, "mla_append", mla_append_kernel<T>, elementwise(a.latent.rows, a.latent.cols + a.shared_key.cols),
           a);
  });
}

}  // namespace nibble::cuda
