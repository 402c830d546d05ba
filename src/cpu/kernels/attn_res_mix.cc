// A softmax over depth: scores of the normalised sources, mix of the raw ones.
#include "ops/attn_res_mix.h"

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/kernels.h"

namespace nibble::cpu::NIBBLE_ISA {
namespace {

// sum_d v[d] * norm[d] * proj[d] over the root mean square of v.
template <class T>
NIBBLE_INLINE float score(const T* v, const ops::AttnResMix& a) {
  const int64_t n = a.out.cols;
  F16 squares = zero(), sums = zero();
  for_lanes(n, [&](int64_t k, int64_t count) {
    const F16 x = load_n(v + k, count);
    squares = fma(x, x, squares);
    sums = fma(x, load_n(a.norm.data + k, count) * load_n(a.proj.data + k, count), sums);
  });
  return sum(sums) / __builtin_sqrtf(sum(squares) / static_cast<float>(n) + a.eps);
}

// Scores to probabilities, in place.
NIBBLE_INLINE void softmax(float* p, int64_t n) {
  float largest = p[0], total = 0.0f;
  for (int64_t i = 1; i < n; ++i) largest = p[i] > largest ? p[i] : largest;
  for (int64_t i = 0; i < n; ++i) total += p[i] = first_lane(exp(broadcast(p[i] - largest)));
  for (int64_t i = 0; i < n; ++i) p[i] = p[i] / total;
}

}  // namespace

void attn_res_mix(Device& device, const ops::AttnResMix& a) {
  with_dtype(a.out.dtype, [&]<class T>() {
    const int64_t rows = a.out.rows, n = a.sources.rows / rows;
    split(device, rows, a.sources.rows * a.out.cols * 4, [&](int64_t begin, int64_t end, int) {
      float p[ops::AttnResMix::kMaxSources];
      for (int64_t t = begin; t < end; ++t) {
        for (int64_t i = 0; i < n; ++i) p[i] = score(row<T>(a.sources, i * rows + t), a);
        softmax(p, n);
        T* out = row<T>(a.out, t);
        for_lanes(a.out.cols, [&](int64_t k, int64_t count) {
          F16 mixed = zero();
          for (int64_t i = 0; i < n; ++i) {
            mixed = fma(broadcast(p[i]), load_n(row<T>(a.sources, i * rows + t) + k, count), mixed);
          }
          store_n(out + k, mixed, count);
        });
      }
    });
  });
}

}  // namespace nibble::cpu::NIBBLE_ISA
