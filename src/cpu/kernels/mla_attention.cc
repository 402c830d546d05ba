// Latent attention, page by page. A tile of queries of one sequence walks its pages together: in the absorbed form some
// heads of a few rows, for which keys and values are the pool's latents; in the expanded form some rows of one head,
// for which each page is widened once. From there on both are the same: 64 scores, (max, sum, value), a carry stack.
#include "ops/mla_attention.h"

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/kernels.h"
#include "cpu/kernels/page_parts.h"
#include "cpu/kernels/weights.h"

namespace nibble::cpu::NIBBLE_ISA {
namespace {

using ops::kPageTokens;
using ops::MlaAttention;
using ops::MlaScratch;

// Rows [first, first + rows) of sequence s, heads [head, head + heads): query r * heads + h.
struct Tile {
  int64_t s, first, rows, head, heads;
};

// What a worker has at hand: the arguments, and its slice of scratch.
struct Worker {
  const MlaAttention& a;
  MlaScratch layout;
  float* scratch;

  NIBBLE_INLINE Worker(const MlaAttention& args, int worker)
      : a(args),
        layout(args.kv_b.cols, args.nope_dim, args.shared_dim, args.value_dim, args.sequences.pages.cols),
        scratch(reinterpret_cast<float*>(args.scratch.data) + worker * layout.floats) {}

  NIBBLE_INLINE float* queries() const { return scratch + layout.queries; }
  NIBBLE_INLINE float* scores() const { return scratch + layout.scores; }
  NIBBLE_INLINE float* keys() const { return scratch + layout.keys; }
  NIBBLE_INLINE float* values() const { return scratch + layout.values; }
  NIBBLE_INLINE float* latents() const { return scratch + layout.latents; }
  NIBBLE_INLINE float* weights() const { return scratch + layout.weight; }
  NIBBLE_INLINE Parts parts(int64_t width) const { return {scratch + layout.parts, width, layout.levels}; }
};

// Rows first .. first + count - 1 of kv_b (at most sixteen) into weights(), widened.
NIBBLE_INLINE void widen_weights(const Worker& w, int64_t first, int64_t count) {
  const int64_t n = w.a.kv_b.cols, stride = MlaScratch::rounded(n);
  const F16 factor = broadcast(w.a.kv_b.tensor_scale);
  with_row_type(w.a.kv_b.format, [&]<class Row>() {
    for (int64_t i = 0; i < count; ++i) {
      const Row from(w.a.kv_b, first + i);
      float* out = w.weights() + i * stride;
      int64_t k = 0;
      for (; k + kLanes <= n; k += kLanes) store(out + k, from.at(k) * factor);
      if constexpr (Row::kHasTail) {
        if (k < n) store(out + k, from.tail(k, n - k) * factor);
      }
    }
  });
}

// f(v, count) for the sixteen rows first + v .. of kv_b at a time, of `rows` in all; they are in weights().
template <class F>
NIBBLE_INLINE void for_weights(const Worker& w, int64_t first, int64_t rows, const F& f) {
  for (int64_t v = 0; v < rows; v += kLanes) {
    const int64_t count = rows - v < kLanes ? rows - v : kLanes;
    widen_weights(w, first + v, count);
    f(v, count);
  }
}

template <class T>
NIBBLE_INLINE void land_lanes(float* x, int64_t n) {
  if constexpr (sizeof(T) == 2) {
    for_lanes(n, [&](int64_t k, int64_t) {
      T lanes[kLanes];
      store(lanes, load(x + k));
      store(x + k, load(lanes));
    });
  }
}

// The first pool row of page `index` of sequence s.
template <class T>
NIBBLE_INLINE const T* page_rows(const MlaAttention& a, int64_t s, int64_t index) {
  return row<T>(a.pool, a.sequences.pages.row(s)[index] * kPageTokens);
}

NIBBLE_INLINE int64_t pages_of(int64_t keys) { return (keys + kPageTokens - 1) / kPageTokens; }

// How many keys row t of sequence s sees.
NIBBLE_INLINE int64_t keys_of(const MlaAttention& a, int64_t s, int64_t t) {
  return a.sequences.position.data[s] + (t - a.sequences.row_begin.data[s]) + 1;
}

// query = [land(q_nope W_UK) | q_pe] of the tile's rows and one head, the C rows of W_UK eight at a time.
template <class T>
NIBBLE_INLINE void absorb(const Worker& w, const Tile& tile, int64_t h) {
  constexpr int64_t kAtOnce = 8;
  const MlaAttention& a = w.a;
  const int64_t latent = a.kv_b.cols, stride = MlaScratch::rounded(latent), q_width = a.nope_dim + a.shared_dim;
  const int64_t query_stride = MlaScratch::rounded(latent + a.shared_dim);
  const auto query = [&](int64_t r) __attribute__((always_inline)) {
    return w.queries() + (r * tile.heads + h) * query_stride;
  };
  const auto q = [&](int64_t r) __attribute__((always_inline)) {
    return row<T>(a.q, tile.first + r) + (tile.head + h) * q_width;
  };
  const float* weight = w.weights();
  for (int64_t c = 0; c < a.nope_dim; c += kAtOnce) {
    const int64_t left = a.nope_dim - c, count = left < kAtOnce ? left : kAtOnce;
    widen_weights(w, (tile.head + h) * (a.nope_dim + a.value_dim) + c, count);
    for (int64_t r = 0; r < tile.rows; ++r) {
      float factor[kAtOnce];
      for (int64_t i = 0; i < count; ++i) factor[i] = as_float(q(r)[c + i]);
      for_lanes(latent, [&](int64_t k, int64_t) {
        F16 sum = c == 0 ? zero() : load(query(r) + k);
        for (int64_t i = 0; i < count; ++i) sum = fma(broadcast(factor[i]), load(weight + i * stride + k), sum);
        store(query(r) + k, sum);
      });
    }
  }
  for (int64_t r = 0; r < tile.rows; ++r) {
    land_lanes<T>(query(r), latent);
    for_lanes(a.shared_dim, [&](int64_t k, int64_t count) {
      store_n(query(r) + latent + k, load_n(q(r) + a.nope_dim + k, count), count);
    });
  }
}

// out = W_UV land(z), z the merged latents of the tile's rows and one head.
template <class T>
NIBBLE_INLINE void value_out(const Worker& w, const Tile& tile, int64_t h) {
  const MlaAttention& a = w.a;
  const int64_t latent = a.kv_b.cols, first_keys = keys_of(a, tile.s, tile.first);
  const Parts parts = w.parts(latent);
  const int64_t stride = MlaScratch::rounded(latent);
  for (int64_t r = 0; r < tile.rows; ++r) {
    float* total = finish(parts, r * tile.heads + h, pages_of(first_keys + r));
    land_lanes<T>(total, latent);
    __builtin_memcpy(w.queries() + r * stride, total, static_cast<size_t>(latent) * sizeof(float));  // no longer used
  }
  for_weights(w, (tile.head + h) * (a.nope_dim + a.value_dim) + a.nope_dim, a.value_dim, [&](int64_t v, int64_t count) {
    float values[MlaScratch::kAbsorbedRows][kLanes];
    products({w.weights(), stride, count}, w.queries(), stride, tile.rows, latent, values[0], kLanes);
    for (int64_t r = 0; r < tile.rows; ++r) {
      store_n(row<T>(a.out, tile.first + r) + (tile.head + h) * a.value_dim + v, load(values[r]), count);
    }
  });
}

// Page `index` for all queries of a tile; `keys_of_first` counts from this page's first key, and may be past its last.
NIBBLE_INLINE void attend_all(const Worker& w, const Tile& tile, const Page& page, const Parts& parts, int64_t index,
                              int64_t keys_of_first, int64_t query_width) {
  const int64_t queries = tile.rows * tile.heads, last = keys_of_first + tile.rows - 1;
  score_page(page, last < kPageTokens ? last : kPageTokens, w.queries(), query_width, queries, w.scores());
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t own = keys_of_first + r;
    if (own <= 0) continue;
    // Rows that see the whole page go together with those after them.
    const int64_t rows = own >= kPageTokens ? tile.rows - r : 1;
    const int64_t begin = r * tile.heads, end = (r + rows) * tile.heads, count = own < kPageTokens ? own : kPageTokens;
    for (int64_t q = begin; q < end; ++q) {
      soften(w.scores() + q * kPageTokens, count, w.a.scale, parts.max_sum(q, level_of(index)));
    }
    mix_page(page, count, w.scores(), parts, level_of(index), begin, end);
    for (int64_t q = begin; q < end; ++q) carry(parts, q, index);
    r += rows - 1;
  }
}

template <class T>
NIBBLE_INLINE void absorbed_tile(const Worker& w, const Tile& tile) {
  const MlaAttention& a = w.a;
  const int64_t latent = a.kv_b.cols, width = latent + a.shared_dim, stride = MlaScratch::rounded(width);
  const int64_t keys = keys_of(a, tile.s, tile.first), last = keys + tile.rows - 1;
  for (int64_t h = 0; h < tile.heads; ++h) absorb<T>(w, tile, h);
  const Page page = {w.keys(), stride, width, w.keys(), stride, latent};
  for (int64_t i = 0; i * kPageTokens < last; ++i) {
    const int64_t here = last - i * kPageTokens;
    const T* rows = page_rows<T>(a, tile.s, i);
    for (int64_t k = 0; k < (here < kPageTokens ? here : kPageTokens); ++k) {
      for_lanes(width, [&](int64_t d, int64_t n) {
        store(w.keys() + k * stride + d, load_n(rows + k * a.pool.stride + d, n));
      });
    }
    attend_all(w, tile, page, w.parts(latent), i, keys - i * kPageTokens, stride);
  }
  for (int64_t h = 0; h < tile.heads; ++h) value_out<T>(w, tile, h);
}

// Keys and values of `count` positions of a page for head h, landed.
template <class T>
NIBBLE_INLINE void widen(const Worker& w, const T* rows, int64_t h, int64_t count, const Page& page) {
  const MlaAttention& a = w.a;
  const int64_t latent = a.kv_b.cols, stride = MlaScratch::rounded(latent);
  for (int64_t k = 0; k < count; ++k) {
    for_lanes(latent, [&](int64_t d, int64_t n) {
      store(w.latents() + k * stride + d, load_n(rows + k * a.pool.stride + d, n));
    });
  }
  const auto fill = [&](int64_t first, int64_t width, float* out, int64_t out_stride) __attribute__((always_inline)) {
    for_weights(w, first, width, [&](int64_t c, int64_t n) {
      products({w.weights(), stride, n}, w.latents(), stride, count, latent, out + c, out_stride);
      for (int64_t k = 0; k < count; ++k) land_lanes<T>(out + k * out_stride + c, n);
    });
  };
  fill(h * (a.nope_dim + a.value_dim), a.nope_dim, w.keys(), page.key_stride);
  fill(h * (a.nope_dim + a.value_dim) + a.nope_dim, a.value_dim, w.values(), page.value_stride);
  for (int64_t k = 0; k < count; ++k) {
    for_lanes(a.shared_dim, [&](int64_t d, int64_t n) {
      store_n(w.keys() + k * page.key_stride + a.nope_dim + d, load_n(rows + k * a.pool.stride + latent + d, n), n);
    });
  }
}

template <class T>
NIBBLE_INLINE void expanded_tile(const Worker& w, const Tile& tile) {
  const MlaAttention& a = w.a;
  const int64_t width = a.nope_dim + a.shared_dim, stride = MlaScratch::rounded(width);
  const int64_t keys = keys_of(a, tile.s, tile.first), last = keys + tile.rows - 1;
  for (int64_t r = 0; r < tile.rows; ++r) {
    const T* q = row<T>(a.q, tile.first + r) + tile.head * width;
    for_lanes(width, [&](int64_t k, int64_t n) { store(w.queries() + r * stride + k, load_n(q + k, n)); });
  }
  const Page page = {w.keys(), stride, width, w.values(), MlaScratch::rounded(a.value_dim), a.value_dim};
  const Parts parts = w.parts(a.value_dim);
  for (int64_t i = 0; i * kPageTokens < last; ++i) {
    const int64_t here = last - i * kPageTokens;
    widen(w, page_rows<T>(a, tile.s, i), tile.head, here < kPageTokens ? here : kPageTokens, page);
    attend_all(w, tile, page, parts, i, keys - i * kPageTokens, stride);
  }
  for (int64_t r = 0; r < tile.rows; ++r) {
    const float* value = finish(parts, r, pages_of(keys + r));
    T* out = row<T>(a.out, tile.first + r) + tile.head * a.value_dim;
    for_lanes(a.value_dim, [&](int64_t k, int64_t n) { store_n(out + k, load(value + k), n); });
  }
}

// run(tile) for rows [first, end) cut where a sequence ends, and heads [head, head + heads) of them.
template <class F>
NIBBLE_INLINE void for_tiles(const MlaAttention& a, int64_t first, int64_t end, int64_t head, int64_t heads,
                             int64_t queries, const F& run) {
  while (first < end) {
    const int64_t s = a.sequences.row_sequence.data[first], last = a.sequences.row_begin.data[s + 1];
    const int64_t rows = (last < end ? last : end) - first, at_once = queries / rows;
    for (int64_t h = 0; h < heads; h += at_once) {
      run(Tile{s, first, rows, head + h, heads - h < at_once ? heads - h : at_once});
    }
    first += rows;
  }
}

// Items are some rows and some heads; heads are split further while there are fewer items than threads.
template <class T, bool kExpanded>
NIBBLE_INLINE void run_all(Device& device, const MlaAttention& a) {
  constexpr int64_t kRows = kExpanded ? MlaScratch::kExpandedRows : MlaScratch::kAbsorbedRows;
  constexpr int64_t kQueries = kExpanded ? MlaScratch::kExpandedRows : MlaScratch::kAbsorbedTile;
  const int64_t row_tiles = (a.q.rows + kRows - 1) / kRows;
  int64_t heads = kExpanded ? 1 : MlaScratch::kAbsorbedTile;
  const auto head_tiles = [&]() __attribute__((always_inline)) { return (a.heads + heads - 1) / heads; };
  while (heads > 1 && row_tiles * head_tiles() < 2 * pool(device).size()) heads /= 2;
  pool(device).parallel_for(row_tiles * head_tiles(), [&](int64_t begin, int64_t end, int worker) {
    const Worker w(a, worker);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i / head_tiles() * kRows, left = a.q.rows - first, head = i % head_tiles() * heads;
      for_tiles(
          a, first, first + (left < kRows ? left : kRows), head, a.heads - head < heads ? a.heads - head : heads,
          kQueries, [&](const Tile& tile) __attribute__((always_inline)) {
            if constexpr (kExpanded)
              expanded_tile<T>(w, tile);
            else
              absorbed_tile<T>(w, tile);
          });
    }
  });
}

}  // namespace

void mla_attention(Device& device, const MlaAttention& a) {
  with_dtype(a.q.dtype, [&]<class T>() {
    if (a.form == ops::MlaForm::kExpanded)
      run_all<T, true>(device, a);
    else
      run_all<T, false>(device, a);
  });
}

}  // namespace nibble::cpu::NIBBLE_ISA
