// Each task takes one head of one sequence and walks its rows segment by segment. The rows of a segment that are in the
// step go together, so that S0 is read once for all of them; each number is nevertheless computed by the same
// operations in the same order as if they came one by one.
#include "ops/kda_rows.h"

#include "cpu/kernels/kda_segment.h"
#include "cpu/kernels/kda_turned.h"
#include "cpu/kernels/kernels.h"

namespace nibble::cpu::NIBBLE_ISA {
namespace {

// Asks for what the next head will read of two of its records, from `j` on. It lies after this head's.
NIBBLE_INLINE void prefetch_records(const Head& head, int64_t j) {
  for (int64_t i = j; i < j + 2; ++i) {
    const float* record = head.key(i + kSegment);
    for (int64_t c = 0; c < head.key_dim + head.value_dim; c += kLanes) __builtin_prefetch(record + c);
  }
}

// S0 (k e^G) and S0 (q e^G) of rows first .. end - 1: sixteen rows of S0, 8 KiB in K3, with all of them. `ahead(v)`
// asks for what is needed later.
template <class F>
NIBBLE_INLINE void read_state(const Head& head, const Scratch& s, int64_t first, int64_t end, const F& ahead) {
  for (int64_t v = 0; v < head.value_dim; v += kLanes) {
    ahead(v);
    const int64_t left = head.value_dim - v;
    const SixteenRows rows = {head.state + v * head.key_dim, head.key_dim, left < kLanes ? left : kLanes};
    if (end - first == 1) {  // memory is what a single row waits for
      if (v / 8 < first) prefetch_records(head, v / 8);
      product_block<2, true>(rows, s.plain + 2 * first * s.keys, s.keys, head.key_dim,
                             s.read + 2 * first * s.values + v, s.values);
      continue;
    }
    products(rows, s.plain + 2 * first * s.keys, s.keys, 2 * (end - first), head.key_dim,
             s.read + 2 * first * s.values + v, s.values);
  }
}

// Rows v .. v + kRows - 1 of S0, as fold says; `key` and `factor` in scratch.
template <int kRows>
NIBBLE_INLINE void fold_rows(const Head& head, const Scratch& s, bool fresh, int64_t v) {
  const float *key = s.plain, *factor = s.scaled;
  for_lanes(head.key_dim, [&](int64_t c, int64_t count) {
    F16 sum[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      sum[r] = fresh ? zero() : load_n(head.state + (v + r) * head.key_dim + c, count) * load(factor + c);
    }
    for (int64_t j = 0; j < kSegment; ++j) {
      const F16 k = load(key + j * s.keys + c);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sum[r] = fma(broadcast(head.value(j)[v + r]), k, sum[r]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) store_n(head.state + (v + r) * head.key_dim + c, sum[r], count);
  });
}

// S0 <- S0 e^G_15 + sum_j v'_j (k~_j e^G_15 c)^T
NIBBLE_INLINE void fold(const Head& head, const Scratch& s, bool fresh) {
  constexpr int kRows = kParts == 1 ? 8 : 4;
  fold_factors(head, s, s.scaled, s.plain);
  int64_t v = 0;
  for (; v + kRows <= head.value_dim; v += kRows) fold_rows<kRows>(head, s, fresh, v);
  for (; v < head.value_dim; ++v) fold_rows<1>(head, s, fresh, v);
}

template <class T>
NIBBLE_INLINE void prefetch(const T* p, int64_t count) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(p + i);
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

// A head of a sequence, and where its rows are.
template <class T>
struct Task {
  const ops::KdaRows& a;
  int64_t h;
  Head head;
  Scratch scratch;
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
    for (int64_t next = i; next < i + 2 && next < end; ++next) prefetch_row<T>(a, next, h);
  }
};

// The rest of a segment, or what there is of it.
template <class T>
NIBBLE_INLINE void run_part(Task<T>& task) {
  const int64_t first = task.position % kSegment, room = kSegment - first, left = task.end - task.t;
  const int64_t rows = left < room ? left : room, stop = first + rows;
  const bool fresh = task.position < kSegment;
  task.enter(first, stop);
  if (!fresh) read_state(task.head, task.scratch, first, stop, [&](int64_t v) { task.ahead(rows, v); });
  finish_rows(task.head, task.scratch, first, stop, fresh, task.columns());
  if (stop == kSegment) fold(task.head, task.scratch, fresh);
  task.t += rows;
  task.position += rows;
}

// Whole segments, with S0 turned once for all of them: a block of it stays in the first-level cache from its products
// to its fold.
template <class T>
NIBBLE_INLINE void run_segments(Task<T>& task, int64_t segments) {
  constexpr int kWide = kParts == 1 ? 4 : 2, kOthers = 4;
  const Head& head = task.head;
  const Scratch& s = task.scratch;
  const TurnedState state = {s.turned, head.key_dim, head.value_dim};
  bool fresh = task.position < kSegment;
  if (!fresh) state.take(head.state);
  float *const keys = s.scaled, *const factor = s.scaled + kSegment * s.keys;  // free once rows have been entered
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
NIBBLE_INLINE void run_head(const ops::KdaRows& a, int64_t sequence, int64_t h, const Scratch& scratch) {
  constexpr int64_t kWorthTurning = 4;  // segments
  const int64_t slot = a.sequences.slot.data[sequence] * a.heads + h, width = 2 * a.key_dim + a.value_dim;
  const Head head = {a.key_dim, a.value_dim, width, a.state.data + slot * a.value_dim * a.key_dim,
                     a.records.data + slot * kSegment * width};
  Task<T> task = {a,
                  h,
                  head,
                  scratch,
                  a.sequences.row_begin.data[sequence],
                  a.sequences.row_begin.data[sequence + 1],
                  a.sequences.position.data[sequence]};
  while (task.t < task.end) {
    const int64_t segments = task.position % kSegment == 0 ? (task.end - task.t) / kSegment : 0;
    if (segments >= kWorthTurning && TurnedState::fits(a.key_dim, a.value_dim))
      run_segments(task, segments);
    else
      run_part(task);
  }
}

}  // namespace

// Heads outermost: a long prompt among single tokens is spread over all workers.
void kda_rows(Device& device, const ops::KdaRows& a) {
  with_dtype(a.q.dtype, [&]<class T>() {
    const int64_t sequences = a.sequences.slot.size;
    pool(device).parallel_for(a.heads * sequences, [&](int64_t begin, int64_t end, int worker) {
      float* slice =
          reinterpret_cast<float*>(a.scratch.data) + worker * ops::kda_rows_scratch_floats(a.key_dim, a.value_dim);
      const Scratch scratch(slice, a.key_dim, a.value_dim);
      for (int64_t item = begin; item < end; ++item) run_head<T>(a, item % sequences, item / sequences, scratch);
    });
  });
}

}  // namespace nibble::cpu::NIBBLE_ISA
