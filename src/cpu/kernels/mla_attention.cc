// Latent attention, page by page. A tile of queries of one sequence walks its pages together: in the absorbed form some
// heads of one row, for which keys and values are the pool's latents; in the expanded form some rows of one head, for
// which each page is widened once. From there on both are the same: 64 scores, (max, sum, value), a carry stack.
#include "ops/mla_attention.h"

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/kernels.h"
#include "cpu/kernels/weights.h"
#include "ops/mla_scratch.h"

namespace nibble::cpu::NIBBLE_ISA {
namespace {

using ops::kPageTokens;
using ops::MlaAttention;
using ops::MlaScratch;

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
  NIBBLE_INLINE float* scores(int64_t query) const { return scratch + layout.scores + query * kPageTokens; }
  NIBBLE_INLINE float* keys() const { return scratch + layout.keys; }
  NIBBLE_INLINE float* values() const { return scratch + layout.values; }
  // The subtree of 2^level pages of a query, `width` values then (max, sum).
  NIBBLE_INLINE float* part(int64_t query, int64_t level, int64_t width) const {
    return scratch + layout.parts + (query * layout.levels + level) * (width + 2);
  }
  // Row `row` of kv_b, widened.
  NIBBLE_INLINE const float* weight(int64_t row) const {
    float* out = scratch + layout.weight;
    const int64_t n = a.kv_b.cols;
    with_row_type(a.kv_b.format, [&]<class Row>() {
      const Row from(a.kv_b, row);
      int64_t k = 0;
      for (; k + kLanes <= n; k += kLanes) store(out + k, from.at(k));
      if constexpr (Row::kHasTail) {
        if (k < n) store_head(out + k, from.tail(k, n - k), n - k);
      }
    });
    return out;
  }
};

// Keys and values of one page: row k of each is that of position 64 * page + k.
template <class E>
struct Page {
  const E* keys;
  int64_t key_stride, key_width;
  const E* values;
  int64_t value_stride, value_width;
};

// The product of a query with keys 0 .. count - 1, softened: scores[k] = e^(score - max), 0 past count.
template <class E>
NIBBLE_INLINE void soften(const Page<E>& page, int64_t count, const float* query, float scale, float* scores,
                          float* max_sum) {
  float largest = -__builtin_inff();
  for (int64_t k = 0; k < count; ++k) {
    scores[k] = dot(page.keys + k * page.key_stride, query, page.key_width) * scale;
    largest = scores[k] > largest ? scores[k] : largest;
  }
  F16 total = zero();
  for (int64_t k = 0; k < kPageTokens; k += kLanes) {
    const int64_t n = count - k;
    F16 p = zero();
    if (n > 0) p = exp(load_n(scores + k, n < kLanes ? n : kLanes) - broadcast(largest));
    store(scores + k, p);
    if (n > 0 && n < kLanes) {
      for (int64_t i = n; i < kLanes; ++i) scores[k + i] = 0.0f;
    }
    total = total + load(scores + k);
  }
  max_sum[0] = largest;
  max_sum[1] = sum(total);
}

// out[d] = sum over keys, ascending, of p[k] * values[k][d], for N * 16 columns d from `column` on.
template <int N, class E>
NIBBLE_INLINE void mix_columns(const Page<E>& page, int64_t count, const float* p, int64_t column, float* out) {
  F16 acc[N];
  for (int i = 0; i < N; ++i) acc[i] = zero();
  for (int64_t k = 0; k < count; ++k) {
    const F16 weight = broadcast(p[k]);
    const E* value = page.values + k * page.value_stride + column;
    for (int i = 0; i < N; ++i) acc[i] = fma(weight, load(value + i * kLanes), acc[i]);
  }
  for (int i = 0; i < N; ++i) store(out + column + i * kLanes, acc[i]);
}

template <class E>
NIBBLE_INLINE void mix(const Page<E>& page, int64_t count, const float* p, float* out) {
  const int64_t n = page.value_width;
  int64_t d = 0;
  for (; d + 4 * kLanes <= n; d += 4 * kLanes) mix_columns<4>(page, count, p, d, out);
  for (; d + kLanes <= n; d += kLanes) mix_columns<1>(page, count, p, d, out);
  if (d == n) return;
  F16 acc = zero();
  for (int64_t k = 0; k < count; ++k) {
    acc = fma(broadcast(p[k]), load_head(page.values + k * page.value_stride + d, n - d), acc);
  }
  store_head(out + d, acc, n - d);
}

// into = earlier + into, as (max, sum, value).
NIBBLE_INLINE void merge(const float* earlier, float* into, int64_t width) {
  const float a = earlier[width], b = into[width], largest = a > b ? a : b;
  const float keep[2] = {a - largest, b - largest};
  float factor[kLanes];
  store(factor, exp(load_head(keep, 2)));
  into[width] = largest;
  into[width + 1] = earlier[width + 1] * factor[0] + into[width + 1] * factor[1];
  const F16 fa = broadcast(factor[0]), fb = broadcast(factor[1]);
  for_lanes(width, [&](int64_t k, int64_t count) {
    store_n(into + k, fma(load_n(earlier + k, count), fa, load_n(into + k, count) * fb), count);
  });
}

// Files page `index`, which is in the last level, like one more in a binary counter: two subtrees of one size merge.
NIBBLE_INLINE void push(const Worker& w, int64_t query, int64_t index, int64_t width) {
  float* current = w.part(query, w.layout.levels - 1, width);
  int64_t level = 0;
  for (; (index >> level & 1) != 0; ++level) merge(w.part(query, level, width), current, width);
  __builtin_memcpy(w.part(query, level, width), current, static_cast<size_t>(width + 2) * sizeof(float));
}

// All `pages` pages of a query, merged from the smallest subtree up and divided by the sum.
NIBBLE_INLINE const float* finish(const Worker& w, int64_t query, int64_t pages, int64_t width) {
  int64_t level = 0;
  while ((pages >> level & 1) == 0) ++level;
  float* total = w.part(query, level, width);
  for (++level; pages >> level != 0; ++level) {
    if ((pages >> level & 1) != 0) merge(w.part(query, level, width), total, width);
  }
  const F16 sum = broadcast(total[width + 1]);
  for_lanes(width, [&](int64_t k, int64_t count) { store_n(total + k, load_n(total + k, count) / sum, count); });
  return total;
}

template <class E>
NIBBLE_INLINE void attend(const Worker& w, int64_t query, int64_t index, int64_t count, const Page<E>& page) {
  float* current = w.part(query, w.layout.levels - 1, page.value_width);
  float* scores = w.scores(query);
  soften(page, count, w.queries() + query * page.key_width, w.a.scale, scores, current + page.value_width);
  mix(page, count, scores, current);
  push(w, query, index, page.value_width);
}

// The first pool row of page `index` of sequence s.
template <class T>
NIBBLE_INLINE const T* page_rows(const MlaAttention& a, int64_t s, int64_t index) {
  return row<T>(a.pool, a.sequences.pages.row(s)[index] * kPageTokens);
}

NIBBLE_INLINE int64_t position_of(const MlaAttention& a, int64_t s, int64_t t) {
  return a.sequences.position.data[s] + (t - a.sequences.row_begin.data[s]);
}

// query = [land(q_nope W_UK) | q_pe] of row t and head h.
template <class T>
NIBBLE_INLINE void absorb(const Worker& w, int64_t t, int64_t h, float* query) {
  const MlaAttention& a = w.a;
  const int64_t latent = a.kv_b.cols;
  const T* q = row<T>(a.q, t) + h * (a.nope_dim + a.shared_dim);
  for_lanes(latent, [&](int64_t k, int64_t count) { store_n(query + k, zero(), count); });
  for (int64_t c = 0; c < a.nope_dim; ++c) {
    const F16 factor = broadcast(first_lane(load_head(q + c, 1)));
    const float* weight = w.weight(h * (a.nope_dim + a.value_dim) + c);
    for_lanes(latent, [&](int64_t k, int64_t count) {
      store_n(query + k, fma(factor, load_n(weight + k, count), load_n(query + k, count)), count);
    });
  }
  for (int64_t k = 0; k < latent; ++k) query[k] = landed<T>(query[k]);
  for_lanes(a.shared_dim,
            [&](int64_t k, int64_t count) { store_n(query + latent + k, load_n(q + a.nope_dim + k, count), count); });
}

// out = W_UV land(z) for row t and head h.
template <class T>
NIBBLE_INLINE void value_out(const Worker& w, int64_t t, int64_t h, const float* mixed, float* landed_latent) {
  const MlaAttention& a = w.a;
  const int64_t latent = a.kv_b.cols;
  for (int64_t k = 0; k < latent; ++k) landed_latent[k] = landed<T>(mixed[k]);
  T* out = row<T>(a.out, t) + h * a.value_dim;
  for (int64_t v = 0; v < a.value_dim; ++v) {
    const float* weight = w.weight(h * (a.nope_dim + a.value_dim) + a.nope_dim + v);
    store_head(out + v, broadcast(dot(weight, landed_latent, latent)), 1);
  }
}

// Heads [first, first + count) of row t.
template <class T>
NIBBLE_INLINE void absorbed_tile(const Worker& w, int64_t t, int64_t first, int64_t count) {
  const MlaAttention& a = w.a;
  const int64_t s = a.sequences.row_sequence.data[t], keys = position_of(a, s, t) + 1;
  const int64_t latent = a.kv_b.cols, width = latent + a.shared_dim;
  const int64_t pages = (keys + kPageTokens - 1) / kPageTokens;
  for (int64_t j = 0; j < count; ++j) absorb<T>(w, t, first + j, w.queries() + j * width);
  for (int64_t i = 0; i < pages; ++i) {
    const T* rows = page_rows<T>(a, s, i);
    const Page<T> page = {rows, a.pool.stride, width, rows, a.pool.stride, latent};
    const int64_t here = keys - i * kPageTokens;
    for (int64_t j = 0; j < count; ++j) attend(w, j, i, here < kPageTokens ? here : kPageTokens, page);
  }
  for (int64_t j = 0; j < count; ++j) {
    value_out<T>(w, t, first + j, finish(w, j, pages, latent), w.queries() + j * width);
  }
}

// Keys and values of `count` positions of a page for head h, landed.
template <class T>
NIBBLE_INLINE void widen(const Worker& w, const T* rows, int64_t h, int64_t count) {
  const MlaAttention& a = w.a;
  const int64_t latent = a.kv_b.cols, key_width = a.nope_dim + a.shared_dim;
  for (int64_t c = 0; c < a.nope_dim + a.value_dim; ++c) {
    const float* weight = w.weight(h * (a.nope_dim + a.value_dim) + c);
    for (int64_t k = 0; k < count; ++k) {
      const float x = landed<T>(dot(rows + k * a.pool.stride, weight, latent));
      if (c < a.nope_dim)
        w.keys()[k * key_width + c] = x;
      else
        w.values()[k * a.value_dim + c - a.nope_dim] = x;
    }
  }
  for (int64_t k = 0; k < count; ++k) {
    for_lanes(a.shared_dim, [&](int64_t d, int64_t n) {
      store_n(w.keys() + k * key_width + a.nope_dim + d, load_n(rows + k * a.pool.stride + latent + d, n), n);
    });
  }
}

// Head h of rows [first, first + count), all of sequence s.
template <class T>
NIBBLE_INLINE void expanded_tile(const Worker& w, int64_t s, int64_t h, int64_t first, int64_t count) {
  const MlaAttention& a = w.a;
  const int64_t width = a.nope_dim + a.shared_dim, keys = position_of(a, s, first) + 1;  // of the first row
  for (int64_t j = 0; j < count; ++j) {
    const T* q = row<T>(a.q, first + j) + h * width;
    for_lanes(width, [&](int64_t k, int64_t n) { store_n(w.queries() + j * width + k, load_n(q + k, n), n); });
  }
  const Page<float> page = {w.keys(), width, width, w.values(), a.value_dim, a.value_dim};
  for (int64_t i = 0; i * kPageTokens < keys + count - 1; ++i) {
    const int64_t here = keys + count - 1 - i * kPageTokens;  // of the last row
    widen(w, page_rows<T>(a, s, i), h, here < kPageTokens ? here : kPageTokens);
    for (int64_t j = 0; j < count; ++j) {
      const int64_t own = keys + j - i * kPageTokens;
      if (own > 0) attend(w, j, i, own < kPageTokens ? own : kPageTokens, page);
    }
  }
  for (int64_t j = 0; j < count; ++j) {
    const float* value = finish(w, j, (keys + j + kPageTokens - 1) / kPageTokens, a.value_dim);
    T* out = row<T>(a.out, first + j) + h * a.value_dim;
    for_lanes(a.value_dim, [&](int64_t k, int64_t n) { store_n(out + k, load_n(value + k, n), n); });
  }
}

template <class T>
NIBBLE_INLINE void absorbed(Device& device, const MlaAttention& a) {
  const int64_t tiles = (a.heads + MlaScratch::kHeadTile - 1) / MlaScratch::kHeadTile;
  pool(device).parallel_for(a.q.rows * tiles, [&](int64_t begin, int64_t end, int worker) {
    const Worker w(a, worker);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % tiles * MlaScratch::kHeadTile, left = a.heads - first;
      absorbed_tile<T>(w, i / tiles, first, left < MlaScratch::kHeadTile ? left : MlaScratch::kHeadTile);
    }
  });
}

// Rows are cut at multiples of the tile and where a sequence ends.
template <class T>
NIBBLE_INLINE void expanded(Device& device, const MlaAttention& a) {
  const int64_t tiles = (a.q.rows + MlaScratch::kRowTile - 1) / MlaScratch::kRowTile;
  pool(device).parallel_for(tiles * a.heads, [&](int64_t begin, int64_t end, int worker) {
    const Worker w(a, worker);
    for (int64_t i = begin; i < end; ++i) {
      int64_t t = i / a.heads * MlaScratch::kRowTile;
      const int64_t tile_end = t + MlaScratch::kRowTile < a.q.rows ? t + MlaScratch::kRowTile : a.q.rows;
      while (t < tile_end) {
        const int64_t s = a.sequences.row_sequence.data[t], last = a.sequences.row_begin.data[s + 1];
        const int64_t stop = last < tile_end ? last : tile_end;
        expanded_tile<T>(w, s, i % a.heads, t, stop - t);
        t = stop;
      }
    }
  });
}

}  // namespace

void mla_attention(Device& device, const MlaAttention& a) {
  with_dtype(a.out.dtype, [&]<class T>() {
    if (a.form == ops::MlaForm::kAbsorbed)
      absorbed<T>(device, a);
    else
      expanded<T>(device, a);
  });
}

}  // namespace nibble::cpu::NIBBLE_ISA
