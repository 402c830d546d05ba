// Rows of the embedding table, widened or landed into the activation's dtype.
#include "ops/embedding.h"

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/kernels.h"

namespace nibble::cpu::NIBBLE_ISA {
namespace {

template <class From, class To>
void gather(const ops::Embedding& a, int64_t begin, int64_t end) {
  const int64_t n = a.table.cols;
  for (int64_t t = begin; t < end; ++t) {
    const int64_t token = a.tokens.data[t];
    const bool known = token >= 0 && token < a.table.rows;
    const From* from = static_cast<const From*>(a.table.codes) + (known ? token * n : 0);
    To* to = row<To>(a.out, t);
    for_lanes(n, [&](int64_t k, int64_t count) { store_n(to + k, known ? load_n(from + k, count) : zero(), count); });
  }
}

}  // namespace

void embedding(Device& device, const ops::Embedding& a) {
  const DType stored = a.table.format == fp4::WeightFormat::kBf16 ? DType::kBf16 : DType::kF32;
  pool(device).parallel_for(a.out.rows, [&](int64_t begin, int64_t end, int) {
    with_dtype(stored,
               [&]<class From>() { with_dtype(a.out.dtype, [&]<class To>() { gather<From, To>(a, begin, end); }); });
  });
}

}  // namespace nibble::cpu::NIBBLE_ISA
