// out[i] = x[rows[i]], or zeros.
#include "cuda/kernels/kernel.cuh"
#include "cuda/kernels/kernels.h"
#include "ops/select_rows.h"

namespace nibble::cuda {
namespace {

template <class T>
__global__ void select_rows_kernel(ops::SelectRows a) {
  Element e;
  if (!element(a.out.cols, e)) return;
  const int64_t from = a.rows.data[e.row];
  const bool known = from >= 0 && from < a.x.rows;
  row<T>(a.out, e.row)[e.col] = known ? row<T>(a.x, from)[e.col] : T{};
}

}  // namespace

void select_rows(Device& device, const ops::SelectRows& a) {
  with_dtype(a.out.dtype, [&]<class T>() {
    launch(device, "select_rows", select_rows_kernel<T>, elementwise(a.out.rows, a.out.cols), a);
  });
}

}  // namespace nibble::cuda
