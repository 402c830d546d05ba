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
  NIBBLE_INLINE void ask_value(int64_t j) const {
    if (j <= first) prefetch(head.value(j), head.value_dim);
  }
};

constexpr int64_t kAhead = 12;  // rows of S0: memory is what a single row waits for

// Sixteen rows of S0 from v on, 8 KiB in K3.
NIBBLE_INLINE SixteenRows state_rows(const Head& head, int64_t v) {
  const int64_t left = head.value_dim - v;
  return {head.state + v * head.key_dim, head.key_dim, left < kLanes ? left : kLanes};
}

// S0 (k e^G) and S0 (q e^G) of one row, for sixteen rows of S0. Not inlined: its loop is what decoding waits for, and
// wants the registers for itself.
[[gnu::noinline]] void read_state_once(const Head head, const Scratch& s, int64_t v, const Next& next) {
  for (int64_t j = v / 8; j < v / 8 + 2; ++j) next.ask_value(j);
  const auto read = [&](int64_t columns) __attribute__((always_inline)) {
    product_block<2>(
        state_rows(head, v), s.plain, s.keys, columns, s.read + v,
        s.values, [&](int64_t r) __attribute__((always_inline)) { next.ask_state(head, v + r + kAhead); });
  };
  constexpr int64_t kUsual = 128;  // K3's: tiles without a loop are a fifth faster
  if (head.key_dim == kUsual)
    read(kUsual);
  else
    read(head.key_dim);
}
// The same of `rows` rows.
NIBBLE_INLINE void read_state(const Head& head, const Scratch& s, int64_t rows, int64_t v) {
  products(state_rows(head, v), s.plain, s.keys, 2 * rows, head.key_dim, s.read + v, s.values);
}

// Rows v .. v + kRows - 1 of S0 <- S0 e^G_15 + sum_j v'_j (k~_j e^G_15 c)^T. Head and scratch come by value: a store of
// a vector may alias what a reference points to, which would be read again after each.
template <int kRows>
[[gnu::noinline]] void fold_rows(const Head head, const Scratch s, int64_t v, bool fresh) {
  const auto fold = [&]<int kBlocks>(int64_t c, int64_t count) __attribute__((always_inline)) {
    fold_tile<kRows, kBlocks>(
        {head.state + v * head.key_dim + c, head.key_dim, kLanes, count}, fresh, head.value(0) + v, head.width,
        s.folded + c,
        s.keys, [&](int, int n) __attribute__((always_inline)) { return load(s.factor + c + n * kLanes); });
  };
  constexpr int kMost = kParts == 1 ? 4 : 1;  // vectors: with four rows as many sums as registers hold
  int64_t c = 0;
  for (; c + kMost * kLanes <= head.key_dim; c += kMost * kLanes) fold.template operator()<kMost>(c, kLanes);
  for (; c < head.key_dim; c += kLanes) {
    fold.template operator()<1>(c, head.key_dim - c < kLanes ? head.key_dim - c : kLanes);
  }
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

  // The first row that is left, counted from its segment's start, and how many there are up to the segment's end: the
  // part of a segment that is next.
  NIBBLE_INLINE int64_t first() const { return position % kSegment; }
  NIBBLE_INLINE int64_t rows_of_part() const {
    const int64_t room = kSegment - first(), left = end - t;
    return left < room ? left : room;
  }
  NIBBLE_INLINE Columns<T> columns() const {
    return {row<T>(a.v, t) + h * a.value_dim,
            a.v.stride,
            row<T>(a.out, t) + h * a.value_dim,
            a.out.stride,
            a.beta.row(t) + h,
            a.beta.stride};
  }
  // Records, factors and inner products of a part.
  NIBBLE_INLINE void enter() const {
    const int64_t first = this->first(), stop = first + rows_of_part(),
                  start = t - first;  // the row of position 0 mod 16
    const auto q = [&](int64_t i) { return row<T>(a.q, start + i) + h * a.key_dim; };
    const auto k = [&](int64_t i) { return row<T>(a.k, start + i) + h * a.key_dim; };
    Norms scale[kSegment];  // of all rows first: a root takes long, but they do not wait for each other
    for (int64_t i = first; i < stop; ++i) scale[i] = norms(q(i), k(i), a.key_dim);
    for (int64_t i = first; i < stop; ++i) {
      enter_row(head, scratch, i, i - first, q(i), k(i), a.decay.row(start + i) + h * a.key_dim, scale[i]);
    }
    inner_products(head, scratch, first, stop);
  }
  // What the first row reads and writes when it enters.
  NIBBLE_INLINE void ask_to_enter() const {
    for (int64_t j = 0; j < first(); ++j) prefetch(head.key(j), head.key_dim);
    if (first() != 0) prefetch(head.cumulative(first() - 1), head.key_dim);
    prefetch(head.cumulative(first()), 2 * head.key_dim);
    prefetch_row<T>(a, t, h);
  }
  // The next segment's rows lie a page or more apart, where no processor looks by itself: two for each sixteen values.
  NIBBLE_INLINE void ahead(int64_t rows, int64_t v) const {
    const int64_t i = t + rows + v / kLanes * 2;
    for (int64_t n = i; n < i + 2 && n < end; ++n) prefetch_row<T>(a, n, h);
  }
};

// The rest of a segment, or what there is of it, once it has entered. Some rows of S0 go from their products to their
// fold at a time, so that memory is never left alone for long.
template <class T>
NIBBLE_INLINE void run_part(Task<T>& task) {
  constexpr int kRows = 4;
  const Head& head = task.head;
  const Scratch& s = task.scratch;
  const int64_t first = task.first(), rows = task.rows_of_part(), stop = first + rows;
  const bool fresh = task.position < kSegment;
  if (stop == kSegment) fold_factors(head, s);
  const Columns<T> io = task.columns();
  const auto run = [&]<int kBlocks>(int64_t c, int64_t count) __attribute__((always_inline)) {
    const int64_t end = c + (kBlocks - 1) * kLanes + count;
    for (int64_t v = c; v < end && !fresh; v += kLanes) {
      task.ahead(rows, v);
      if (rows == 1)
        read_state_once(head, s, v, task.next);
      else
        read_state(head, s, rows, v);
    }
    finish_columns<kBlocks>(head, s, first, stop, fresh, io, c, count);
    if (stop != kSegment) return;
    int64_t v = c;
    for (; v + kRows <= end; v += kRows) {
      if (!fresh) task.next.ask_state(head, v + kBlocks * kLanes + kAhead);
      fold_rows<kRows>(head, s, v, fresh);
    }
    for (; v < end; ++v) fold_rows<1>(head, s, v, fresh);
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
  for (int64_t n = 0; n < segments; ++n) {
    task.enter();
    fold_factors(head, s);
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
      constexpr int kFolded = kParts == 1 ? kBlocks : 1;
      for (int64_t v = c; v < c + kBlocks * kLanes; v += kFolded * kLanes) {
        state.fold<kFolded>(v, fresh, head, s);
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
    if (segments >= kWorthTurning && TurnedState::fits(task.head.key_dim, task.head.value_dim)) {
      run_segments(task, segments);
    } else {
      task.enter();
      run_part(task);
    }
  }
}

// Heads of single rows, no more than scratch has rows: all of them enter before the first one's state is read, so that
// memory, which brings one state after another, is not left alone between them. task(item, row) is the task of an item
// that has `row` of scratch.
constexpr int64_t kTogether = kSegment;
template <class T, class F>
NIBBLE_INLINE void run_together(int64_t item, int64_t count, const F& task) {
  for (int64_t i = 0; i < count; ++i) {
    const Task<T> one = task(item + i, i);
    if (i == 0) one.ask_to_enter();
    if (i + 1 < count) task(item + i + 1, i + 1).ask_to_enter();
    one.enter();
  }
  for (int64_t i = 0; i < count; ++i) {
    Task<T> one = task(item + i, i);
    run_part(one);
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
      const Scratch scratch(slice, a.key_dim, a.value_dim);
      const int32_t* const row_begin = a.sequences.row_begin.data;
      const auto task = [&](int64_t item, int64_t row) __attribute__((always_inline)) {
        const int64_t sequence = item % sequences, after = item + 1 < end ? item + 1 : item;
        return Task<T>{a,
                       item / sequences,
                       head(item),
                       scratch.from(row),
                       {head(after), position(after) % kSegment},
                       row_begin[sequence],
                       row_begin[sequence + 1],
                       position(item)};
      };
      const auto single = [&](int64_t item) __attribute__((always_inline)) {
        return row_begin[item % sequences + 1] == row_begin[item % sequences] + 1;
      };
      for (int64_t item = begin; item < end;) {
        int64_t together = 0;
        while (together < kTogether && item + together < end && single(item + together)) ++together;
        run_together<T>(item, together, task);
        item += together;
        if (together != 0) continue;
        Task<T> one = task(item++, 0);
        run(one);
      }
    });
  });
}

}  // namespace nibble::cpu::NIBBLE_ISA
