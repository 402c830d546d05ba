// The routed experts. Rows are sorted by expert, so that each expert's weights are widened once for all of its rows;
// threads share out columns, never rows, so that each adds up its own columns in ascending expert.
#include "ops/moe_experts.h"

#include "cpu/kernels/dots.h"
#include "cpu/kernels/kernel.h"
#include "cpu/kernels/kernels.h"
#include "cpu/kernels/situ.h"

namespace nibble::cpu::NIBBLE_ISA {
namespace {

struct Groups {
  int64_t* end;    // [E] of the expert's group in `order`; it begins where the one before ends
  int64_t* order;  // [T * k] routed rows t * k + i, by expert, ascending within each
};

Groups group_by_expert(const ops::MoeExperts& a, const ops::MoeExpertsScratch& at) {
  const int64_t experts = a.w1.experts.size, k = a.ids.cols;
  const Groups g = {reinterpret_cast<int64_t*>(a.scratch.data + at.end),
                    reinterpret_cast<int64_t*>(a.scratch.data + at.order)};
  for (int64_t e = 0; e < experts; ++e) g.end[e] = 0;
  for (int64_t t = 0; t < a.ids.rows; ++t) {
    for (int64_t i = 0; i < k; ++i) ++g.end[a.ids.row(t)[i]];
  }
  int64_t total = 0;
  for (int64_t e = 0; e < experts; ++e) {  // the group's begin, which the next loop moves to its end
    const int64_t count = g.end[e];
    g.end[e] = total;
    total += count;
  }
  for (int64_t t = 0; t < a.ids.rows; ++t) {
    for (int64_t i = 0; i < k; ++i) g.order[g.end[a.ids.row(t)[i]]++] = t * k + i;
  }
  return g;
}

// f(expert, first, count) for each run of at most kBlockTokens entries of `order` with one expert. `place`: where in
// `ahead` the first expert lies.
template <class F>
NIBBLE_INLINE void for_runs(const Groups& g, int64_t experts, ExpertsAhead& ahead, int64_t place, const F& f) {
  int64_t first = 0;
  for (int64_t e = 0; e < experts; ++e) {
    if (first < g.end[e]) ahead.reach(place++);
    while (first < g.end[e]) {
      const int64_t left = g.end[e] - first, count = left < kBlockTokens ? left : kBlockTokens;
      f(e, first, count);
      first += count;
    }
  }
}

template <class T>
NIBBLE_INLINE F16 landed_lanes(const float* p) {
  T lane[kLanes];
  store(lane, load(p));
  return load(lane);
}

// hidden[j] = situ(w1 x, w3 x) for the routed rows in the order of `groups`, units [begin, end) of F.
template <class X>
void up(const ops::MoeExperts& a, const Groups& groups, ExpertsAhead& ahead, X* hidden, int64_t begin, int64_t end,
        std::byte* workspace) {
  const Dots<X> dots = dots_of<X>(a.w1.format);
  const int64_t k = a.ids.cols, width = a.w1.rows;
  Activations<X> x(workspace);
  for_runs(groups, a.w1.experts.size, ahead, 0, [&](int64_t e, int64_t first, int64_t tokens) {
    x.tokens = tokens;
    for (int64_t t = 0; t < tokens; ++t) x.row[t] = row<X>(a.x, groups.order[first + t] / k);
    dots.prepare(x, a.x.cols);
    for_row_blocks(begin, end, width, tokens, [&](int64_t column, int64_t count) {
      Block gate(tokens), linear(tokens);
      dots.run(a.w1.experts.data[e], column, count, x, gate);
      dots.run(a.w3.experts.data[e], column, count, x, linear);
      for (int64_t t = 0; t < tokens; ++t) {
        for_lanes(count, [&](int64_t i, int64_t lanes) {
          const F16 h = situ(landed_lanes<X>(gate[t] + i), landed_lanes<X>(linear[t] + i), a.beta, a.linear_beta);
          store_n(hidden + (first + t) * width + column + i, h, lanes);
        });
      }
    });
  });
}

// f(column, lanes) for the outputs of units [begin, end) of n.
template <class F>
NIBBLE_INLINE void for_outputs(int64_t begin, int64_t end, int64_t n, const F& f) {
  const int64_t first = begin * kLanes, last = end * kLanes < n ? end * kLanes : n;
  for_lanes(last - first, [&](int64_t i, int64_t lanes) { f(first + i, lanes); });
}

// out = sum of weight * (w2 hidden), units [begin, end) of L.
template <class X>
void down(const ops::MoeExperts& a, const Groups& groups, ExpertsAhead& ahead, const X* hidden, float* sums,
          int64_t begin, int64_t end, std::byte* workspace) {
  const Dots<X> dots = dots_of<X>(a.w2.format);
  const int64_t k = a.ids.cols, width = a.w2.cols, n = a.w2.rows;
  for (int64_t t = 0; t < a.x.rows; ++t) {
    for_outputs(begin, end, n, [&](int64_t column, int64_t lanes) { store_n(sums + t * n + column, zero(), lanes); });
  }
  Activations<X> h(workspace);
  for_runs(groups, a.w2.experts.size, ahead, ahead.experts(), [&](int64_t e, int64_t first, int64_t tokens) {
    h.tokens = tokens;
    for (int64_t t = 0; t < tokens; ++t) h.row[t] = hidden + (first + t) * width;
    dots.prepare(h, width);
    for_row_blocks(begin, end, n, tokens, [&](int64_t column, int64_t count) {
      Block y(tokens);
      dots.run(a.w2.experts.data[e], column, count, h, y);
      for (int64_t t = 0; t < tokens; ++t) {
        const int64_t token = groups.order[first + t] / k, choice = groups.order[first + t] % k;
        float* sum = sums + token * n + column;
        const F16 weight = broadcast(a.weights.row(token)[choice]);
        for_lanes(count, [&](int64_t i, int64_t lanes) {
          store_n(sum + i, fma(weight, landed_lanes<X>(y[t] + i), load_n(sum + i, lanes)), lanes);
        });
      }
    });
  });
  for (int64_t t = 0; t < a.x.rows; ++t) {
    for_outputs(begin, end, n, [&](int64_t column, int64_t lanes) {
      store_n(row<X>(a.out, t) + column, load_n(sums + t * n + column, lanes), lanes);
    });
  }
}

}  // namespace

void moe_experts(Device& device, const ops::MoeExperts& a) {
  const ops::MoeExpertsScratch at =
      ops::moe_experts_scratch(a.x.rows, a.ids.cols, a.w1.experts.size, a.x.cols, a.w1.rows);
  const Groups groups = group_by_expert(a, at);
  ExpertsAhead ahead(a, groups.end, static_cast<CpuDevice&>(device).expert_pages().due());
  with_dtype(a.x.dtype, [&]<class X>() {
    X* hidden = reinterpret_cast<X*>(a.scratch.data + at.hidden);
    float* sums = reinterpret_cast<float*>(a.scratch.data + at.sums);
    const int64_t work = a.ids.rows * a.ids.cols * a.w1.rows * a.x.cols;
    const int64_t wider = a.x.cols > a.w1.rows ? a.x.cols : a.w1.rows;
    const Workspaces workspaces = workspaces_of(device, prepared_bytes(a.ids.rows, wider));
    split(device, units_of(a.w1.rows), 2 * work, [&](int64_t begin, int64_t end, int worker) {
      up(a, groups, ahead, hidden, begin, end, workspaces[worker]);
    });
    split(device, units_of(a.w2.rows), work, [&](int64_t begin, int64_t end, int worker) {
      down(a, groups, ahead, hidden, sums, begin, end, workspaces[worker]);
    });
  });
}

}  // namespace nibble::cpu::NIBBLE_ISA
