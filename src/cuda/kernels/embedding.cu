// Rows of the embedding table, widened or landed into the activation's dtype.
#include "cuda/kernels/kernel.cuh"
#include "cuda/kernels/kernels.h"
#include "ops/embedding.h"

namespace nibble::cuda {
namespace {

template <class From, class To>
__global__ void embedding_kernel(ops::Embedding a) {
  Element e;
  if (!element(a.out.cols, e)) return;
  const int64_t token = a.tokens.data[e.row];
  const bool known = token >= 0 && token < a.table.rows;
  const From* table = static_cast<const From*>(a.table.codes);
  row<To>(a.out, e.row)[e.col] = land<To>(known ? widen(table[token * a.table.cols + e.col]) : 0.0f);
}

}  // namespace

void embedding(Device& device, const ops::Embedding& a) {
  const DType stored = a.table.format == fp4::WeightFormat::kBf16 ? DType::kBf16 : DType::kF32;
  with_dtype(stored, [&]<class From>() {
    with_dtype(a.out.dtype, [&]<class To>() {
      launch(device, "embedding", embedding_kernel<From, To>, elementwise(a.out.rows, a.out.cols), a);
    });
  });
}

}  // namespace nibble::cuda
