// Each task takes one head of one sequence and walks its rows segment by segment. The rows of a segment that are in the
// step go together, so that S0 is read once for all of them; each number is nevertheless computed by the same
// operations in the same order as if they came one by one.
#include "ops/kda_rows.h"

#include "cpu/kernels/kda_segment.h"
#include "cpu/kernels/kda_turned.h"
#include "cpu/kernels/kernels.h"

namespace nibble::cpu::NIBBLE_ISA {
namespace {

template <class T>
NIBBLE_INLINE void prefetch(const T* p, int64_t count) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(p + i);
}

// The head that a worker has next, and the row of its segment that it begins with.
struct Next {
  Head head;
  int64_t first;
  // Rows v .. v + 3 of a state, counted from the one before.
  NIBBLE_INLINE void ask_state(const Head& before, int64_t v) const {
    const Head& of = v < before.value_dim ? before : head;
    prefetch(of.state + (v < before.value_dim ? v : v - before.value_dim) * of.key_dim, 4 * of.key_dim);
  }
  // Record j: keys and values of rows that are done, the last one's G as well, and all of the one that is written.
  NIBBLE_INLINE void ask_record(int64_t j) const {
    if (j > first) return;
    const bool whole = j >= first - 1;
    prefetch(whole ? head.cumulative(j) : head.key(j), head.width - (whole ? 0 : head.key_dim));
  }
};

// S0 (k e^G) and S0 (q e^G) of rows first .. end - 1, for sixteen rows of S0 from v on: 8 KiB in K3.
NIBBLE_INLINE void read_state(const Head& head, const Scratch& s, int64_t first, int64_t end, int64_t v,
                              const Next& next) {
  constexpr int64_t kAhead = 8;  // rows: memory is what a single row waits for
  const int64_t left = head.value_dim - v;
  const SixteenRows rows = {head.state + v * head.key_dim, head.key_dim, left < kLanes ? left : kLanes};
  const float* factors = s.plain + 2 * first * s.keys;
  float* out = s.read + 2 * first * s.values + v;
  if (end - first != 1) return products(rows, factors, s.keys, 2 * (end - first), head.key_dim, out, s.values);
  for (int64_t j = v / 8; j < v / 8 + 2; ++j) next.ask_record(j);
  product_block<2>(
      rows, factors, s.keys, head.key_dim, out,
      s.values, [&](int64_t r) __attribute__((always_inline)) { next.ask_state(head, v + r + kAhead); });
}

// Rows v .. v + kRows - 1 of S0 <- S0 e^G_15 + sum_j v'_j (k~_j e^G_15 c)^T; `key` and `factor` of fold_factors.
template <int kRows>
NIBBLE_INLINE void fold_rows(const Head& head, int64_t v, bool fresh, const float* factor, const float* key,
                             int64_t key_stride) {
  for_lanes(head.key_dim, [&](int64_t c, int64_t count) {
    F16 sum[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      sum[r] = fresh ? zero() : load_n(head.state + (v + r) * head.key_dim + c, count) * load(factor + c);
    }
    for (int64_t j = 0; j < kSegment; ++j) {
      const F16 k = load(key + j * key_stride + c);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sum[r] = fma(broadcast(head.value(j)[v + r]), k, sum[r]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) store_n(head.state + (v + r) * head.key_dim + c, sum[r], count);
  });
}

// Asks for what head h reads and writes of row t.
template <class T>
NIBBLE_INLINE void prefetch_row(const ops::KdaRows& a, int64_t t, int64_t h) {
  prefetch(row<T>(a.q, t) + h * a.key_dim, a.key_dim);
  prefetch(row<T>(a.k, t) + h * a.key_dim, a.key_dim);
  prefetch(a.decay.row(t) + h * a.key_dim, a.key_dim);
  prefetch(row<T>(a.v, t) + h * a.value_dim, a.value_dim);
  prefetch(row<T>(a.out, t) + h * a.value_dim, a.value_dim);
}

// Vectors of values at once: eight sums, enough to hide the latency of an addition.
constexpr int kWide = kParts == 1 ? 4 : 2;

// A head of a sequence, and where its rows are.
template <class T>
struct Task {
  const ops::KdaRows& a;
  int64_t h;
  Head head;
  Scratch scratch;
  Next next;
  int64_t t, end, position;  // the first row that is left, the one after the last, the first one's position

  NIBBLE_INLINE Columns<T> columns() const {
    return {row<T>(a.v, t) + h * a.value_dim,
            a.v.stride,
            row<T>(a.out, t) + h * a.value_dim,
            a.out.stride,
            a.beta.row(t) + h,
            a.beta.stride};
  }
  // Records, factors and inner products of rows first .. stop - 1 of the segment.
  NIBBLE_INLINE void enter(int64_t first, int64_t stop) const {
    const int64_t start = t - first;  // the row of position 0 mod 16
    const auto q = [&](int64_t i) { return row<T>(a.q, start + i) + h * a.key_dim; };
    const auto k = [&](int64_t i) { return row<T>(a.k, start + i) + h * a.key_dim; };
    Norms scale[kSegment];  // of all rows first: a root takes long, but they do not wait for each other
    for (int64_t i = first; i < stop; ++i) scale[i] = norms(q(i), k(i), a.key_dim);
    for (int64_t i = first; i < stop; ++i) {
      enter_row(head, scratch, i, q(i), k(i), a.decay.row(start + i) + h * a.key_dim, scale[i]);
    }
    inner_products(head, scratch, first, stop);
  }
  // The next segment's rows lie a page or more apart, where no processor looks by itself: two for each sixteen values.
  NIBBLE_INLINE void ahead(int64_t rows, int64_t v) const {
    const int64_t i = t + rows + v / kLanes * 2;
    for (int64_t n = i; n < i + 2 && n < end; ++n) prefetch_row<T>(a, n, h);
  }
};

// The rest of a segment, or what there is of it. Some rows of S0 go from their products to their fold at a time, so
// that memory is never left alone for long.
template <class T>
NIBBLE_INLINE void run_part(Task<T>& task) {
  constexpr int kRows = kParts == 1 ? 8 : 4;
  const Head& head = task.head;
  const Scratch& s = task.scratch;
  const int64_t first = task.position % kSegment, room = kSegment - first, left = task.end - task.t;
  const int64_t rows = left < room ? left : room, stop = first + rows;
  const bool fresh = task.position < kSegment;
  task.enter(first, stop);
  float *const keys = s.folded(), *const factor = s.factor();
  if (stop == kSegment) fold_factors(head, s, factor, keys);
  const Columns<T> io = task.columns();
  const auto run = [&]<int kBlocks>(int64_t c, int64_t count) __attribute__((always_inline)) {
    const int64_t end = c + (kBlocks - 1) * kLanes + count;
    for (int64_t v = c; v < end && !fresh; v += kLanes) {
      task.ahead(rows, v);
      read_state(head, s, first, stop, v, task.next);
    }
    finish_columns<kBlocks>(head, s, first, stop, fresh, io, c, count);
    if (stop != kSegment) return;
    int64_t v = c;
    for (; v + kRows <= end; v += kRows) fold_rows<kRows>(head, v, fresh, factor, keys, s.keys);
    for (; v < end; ++v) fold_rows<1>(head, v, fresh, factor, keys, s.keys);
  };
  int64_t c = 0;
  for (; c + kWide * kLanes <= head.value_dim; c += kWide * kLanes) run.template operator()<kWide>(c, kLanes);
  for (; c < head.value_dim; c += kLanes) {
    run.template operator()<1>(c, head.value_dim - c < kLanes ? head.value_dim - c : kLanes);
  }
  task.t += rows;
  task.position += rows;
}

// Whole segments, with S0 turned once for all of them: a block of it stays in the first-level cache from its products
// to its fold.
template <class T>
NIBBLE_INLINE void run_segments(Task<T>& task, int64_t segments) {
  constexpr int kOthers = 4;
  const Head& head = task.head;
  const Scratch& s = task.scratch;
  const TurnedState state = {s.turned, head.key_dim, head.value_dim};
  bool fresh = task.position < kSegment;
  if (!fresh) state.take(head.state);
  float *const keys = s.folded(), *const factor = s.factor();
  for (int64_t n = 0; n < segments; ++n) {
    task.enter(0, kSegment);
    fold_factors(head, s, factor, keys);
    const Columns<T> io = task.columns();
    const auto run = [&]<int kBlocks>(int64_t c) __attribute__((always_inline)) {
      constexpr int kAtOnce = kParts == 1 && kBlocks > 1 ? 2 : 1;
      for (int64_t v = c; v < c + kBlocks * kLanes; v += kAtOnce * kLanes) {
        for (int i = 0; i < kAtOnce; ++i) task.ahead(kSegment, v + i * kLanes);
        for (int64_t t = 0; t < 2 * kSegment && !fresh; t += kOthers) {
          state.products<kAtOnce, kOthers>(v, s.plain + t * s.keys, s.keys, s.read + t * s.values + v, s.values);
        }
      }
      finish_columns<kBlocks>(head, s, 0, kSegment, fresh, io, c, kLanes);
      for (int64_t v = c; v < c + kBlocks * kLanes; v += kLanes) {
        state.fold(v, fresh, factor, keys, s.keys, head.value(0), head.width, kSegment);
      }
    };
    int64_t c = 0;
    for (; c + kWide * kLanes <= head.value_dim; c += kWide * kLanes) run.template operator()<kWide>(c);
    for (; c < head.value_dim; c += kLanes) run.template operator()<1>(c);
    fresh = false;
    task.t += kSegment;
    task.position += kSegment;
  }
  state.give(head.state);
}

template <class T>
NIBBLE_INLINE void run(Task<T>& task) {
  constexpr int64_t kWorthTurning = 4;  // segments
  while (task.t < task.end) {
    const int64_t segments = task.position % kSegment == 0 ? (task.end - task.t) / kSegment : 0;
    if (segments >= kWorthTurning && TurnedState::fits(task.head.key_dim, task.head.value_dim))
      run_segments(task, segments);
    else
      run_part(task);
  }
}

}  // namespace

// Heads outermost: a long prompt among single tokens is spread over all workers.
void kda_rows(Device& device, const ops::KdaRows& a) {
  with_dtype(a.q.dtype, [&]<class T>() {
    const int64_t sequences = a.sequences.slot.size, width = 2 * a.key_dim + a.value_dim;
    const auto position = [&](int64_t item) { return a.sequences.position.data[item % sequences]; };
    const auto head = [&](int64_t item) {
      const int64_t i = a.sequences.slot.data[item % sequences] * a.heads + item / sequences;
      return Head{a.key_dim, a.value_dim, width, a.state.data + i * a.value_dim * a.key_dim,
                  a.records.data + i * kSegment * width};
    };
    pool(device).parallel_for(a.heads * sequences, [&](int64_t begin, int64_t end, int worker) {
      float* slice =
          reinterpret_cast<float*>(a.scratch.data) + worker * ops::kda_rows_scratch_floats(a.key_dim, a.value_dim);
      for (int64_t item = begin; item < end; ++item) {
        const int64_t after = item + 1 < end ? item + 1 : item;
        Task<T> task = {a,
                        item / sequences,
                        head(item),
                        Scratch(slice, a.key_dim, a.value_dim),
                        {head(after), position(after) % kSegment},
                        a.sequences.row_begin.data[item % sequences],
                        a.sequences.row_begin.data[item % sequences + 1],
                        position(item)};
        run(task);
      }
    });
  });
}

}  // namespace nibble::cpu::NIBBLE_ISA
