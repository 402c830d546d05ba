// out_p = x W_p^T: units of sixteen output rows, dealt over the threads across all parts.
#include "ops/linear.h"

#include "cpu/kernels/dots.h"
#include "cpu/kernels/kernel.h"
#include "cpu/kernels/kernels.h"

namespace nibble::cpu::NIBBLE_ISA {
namespace {

template <class Out>
void land(const Rows& out, int64_t token, int64_t tokens, int64_t column, int64_t count, const Block& values) {
  for (int64_t t = 0; t < tokens; ++t) {
    for_lanes(count, [&](int64_t i, int64_t lanes) {
      store_n(row<Out>(out, token + t) + column + i, load(values[t] + i), lanes);
    });
  }
}

// Units [begin, end) of one part.
template <class X>
void multiply(const ConstRows& x, const ops::Linear::Part& part, int64_t begin, int64_t end, std::byte* workspace) {
  const Dots<X> dots = dots_of<X>(part.weight.format);
  Activations<X> rows(workspace);
  for (int64_t token = 0; token < x.rows; token += kBlockTokens) {
    rows.tokens = x.rows - token < kBlockTokens ? x.rows - token : kBlockTokens;
    for (int64_t t = 0; t < rows.tokens; ++t) rows.row[t] = row<X>(x, token + t);
    dots.prepare(rows, x.cols);
    for_row_blocks(begin, end, part.weight.rows, rows.tokens, [&](int64_t n, int64_t count) {
      Block values(rows.tokens);
      dots.run(part.weight, n, count, rows, values);
      with_dtype(part.out.dtype, [&]<class Out>() { land<Out>(part.out, token, rows.tokens, n, count, values); });
    });
  }
}

}  // namespace

void linear(Device& device, const ops::Linear& a) {
  int64_t units = 0;
  for (int p = 0; p < a.part_count; ++p) units += units_of(a.parts[p].weight.rows);
  const Workspaces workspaces = workspaces_of(device, prepared_bytes(a.x.rows, a.x.cols));
  split(device, units, units * kLanes * a.x.cols * a.x.rows, [&](int64_t begin, int64_t end, int worker) {
    int64_t first = 0;  // of the part, among the units of all
    for (int p = 0; p < a.part_count; ++p) {
      const ops::Linear::Part& part = a.parts[p];
      const int64_t count = units_of(part.weight.rows);
      const int64_t from = begin > first ? begin - first : 0, to = end - first < count ? end - first : count;
      if (from < to) {
        with_dtype(a.x.dtype, [&]<class X>() { multiply<X>(a.x, part, from, to, workspaces[worker]); });
      }
      first += count;
    }
  });
}

}  // namespace nibble::cpu::NIBBLE_ISA
