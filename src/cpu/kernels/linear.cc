// out_p = x W_p^T: blocks of sixteen output rows, dealt over the threads across all parts.
#include "ops/linear.h"

#include "cpu/kernels/dots.h"
#include "cpu/kernels/kernel.h"
#include "cpu/kernels/kernels.h"

namespace nibble::cpu::NIBBLE_ISA {
namespace {

template <class X>
void land(const Rows& out, int64_t token, int64_t tokens, int64_t column, int64_t count, const Block& values) {
  for (int64_t t = 0; t < tokens; ++t) store_n(row<X>(out, token + t) + column, load(values[t]), count);
}

// Blocks [begin, end) of one part.
template <class X>
void multiply(const ConstRows& x, const ops::Linear::Part& part, int64_t begin, int64_t end) {
  const Dots<X> dots = dots_of<X>(part.weight.format);
  for (int64_t token = 0; token < x.rows; token += kBlockTokens) {
    const int64_t tokens = x.rows - token < kBlockTokens ? x.rows - token : kBlockTokens;
    const X* rows[kBlockTokens];
    for (int64_t t = 0; t < tokens; ++t) rows[t] = row<X>(x, token + t);
    for (int64_t block = begin; block < end; ++block) {
      const int64_t n = block * kBlockRows, left = part.weight.rows - n, count = left < kBlockRows ? left : kBlockRows;
      Block values;
      dots(part.weight, n, count, rows, tokens, values);
      with_dtype(part.out.dtype, [&]<class Out>() { land<Out>(part.out, token, tokens, n, count, values); });
    }
  }
}

}  // namespace

void linear(Device& device, const ops::Linear& a) {
  int64_t blocks = 0;
  for (int p = 0; p < a.part_count; ++p) blocks += blocks_of(a.parts[p].weight.rows);
  pool(device).parallel_for(blocks, [&](int64_t begin, int64_t end, int) {
    int64_t first = 0;  // of the part, among the blocks of all
    for (int p = 0; p < a.part_count; ++p) {
      const ops::Linear::Part& part = a.parts[p];
      const int64_t count = blocks_of(part.weight.rows);
      const int64_t from = begin > first ? begin - first : 0, to = end - first < count ? end - first : count;
      if (from < to) {
        with_dtype(a.x.dtype, [&]<class X>() { multiply<X>(a.x, part, from, to); });
      }
      first += count;
    }
  });
}

}  // namespace nibble::cpu::NIBBLE_ISA
