// Latent attention, page by page. A block has a tile of queries of one sequence, which walk its pages together: in the
// absorbed form some heads of one row, for which keys and values are the pool's latents; in the expanded form some rows
// of one head, for which each page is widened once. From there on both are the same: 64 scores, (max, sum, value), and
// a stack of subtrees of pages. What a block works on lies in its slice of the scratch.
#include <algorithm>

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/math.cuh"
#include "cuda/kernels/weights.cuh"
#include "ops/mla_attention.h"

namespace nibble::cuda {
namespace {

using ops::MlaAttention;

constexpr int kThreads = 256;
constexpr int kPage = static_cast<int>(ops::kPageTokens);
constexpr int kHeadTile = 4, kRowTile = 32;  // queries that a block has at once: heads of a row, or rows of a head
constexpr int kQueries = kRowTile;           // the most

// A block's slice of scratch; offsets in floats.
struct Layout {
  int64_t queries = 0;  // tile x [query]
  int64_t scores = 0;   // tile x [64]
  int64_t parts = 0;    // tile x levels x [value | max, sum]: subtrees of pages not yet merged, and the current page
  int64_t keys = 0;     // [64, C + P] expanded form only
  int64_t values = 0;   // [64, V]     expanded form only
  int64_t levels = 0;   // subtrees of 1, 2, 4, ... pages, and one for the page at work
  int64_t floats = 0;   // a whole slice
};
Layout layout_of(int64_t latent, int64_t nope, int64_t shared, int64_t value, int64_t pages) {
  Layout at;
  at.levels = 1;
  for (int64_t n = pages; n > 0; n /= 2) ++at.levels;
  const auto take = [&at](int64_t count) {
    const int64_t begin = at.floats;
    at.floats += divide_up(count, 64) * 64;
    return begin;
  };
  at.queries = take(std::max(kHeadTile * (latent + shared), kRowTile * (nope + shared)));
  at.scores = take(kRowTile * kPage);
  at.parts = take(at.levels * std::max(kHeadTile * (latent + 2), kRowTile * (value + 2)));
  at.keys = take(kPage * (nope + shared));
  at.values = take(kPage * value);
  return at;
}

// What a block has at hand: the arguments, its slice of scratch, and widths as ints.
struct Block {
  const MlaAttention& a;
  const Layout& layout;
  float* scratch;
  int latent, nope, shared, value;

  __device__ float* queries() const { return scratch + layout.queries; }
  __device__ float* scores(int query) const { return scratch + layout.scores + query * kPage; }
  __device__ float* keys() const { return scratch + layout.keys; }
  __device__ float* values() const { return scratch + layout.values; }
  // The subtree of 2^level pages of a query, `width` values then (max, sum).
  __device__ float* part(int query, int64_t level, int width) const {
    return scratch + layout.parts + (query * layout.levels + level) * (width + 2);
  }
  __device__ float* current(int query, int width) const { return part(query, layout.levels - 1, width); }
};

// Keys and values of one page: row k of each is that of position 64 * page + k.
template <class E>
struct Page {
  const E* keys;
  int64_t key_stride;
  int key_width;
  const E* values;
  int64_t value_stride;
  int value_width;
};

// Queries [first, end) of a tile at one page; query j sees the first keys[j] of its positions.
struct Queries {
  int first, end;
  const int* keys;
};

// The products of queries with their keys, softened: scores[k] = e^(score - max), 0 past the last; and (max, sum).
template <class E>
__device__ void soften(const Block& b, const Page<E>& page, const Queries& q) {
  for (int item = q.first * kPage + half_warp(); item < q.end * kPage; item += half_warps()) {
    const int j = item / kPage, k = item % kPage;
    if (k >= q.keys[j]) continue;
    const float score =
        dot(page.keys + k * page.key_stride, b.queries() + static_cast<int64_t>(j) * page.key_width, page.key_width);
    if (lane() == 0) b.scores(j)[k] = score * b.a.scale;
  }
  __syncthreads();
  for (int j = q.first + half_warp(); j < q.end; j += half_warps()) {
    float* scores = b.scores(j);
    float largest = -INFINITY, total = 0.0f;
    for (int k = lane(); k < q.keys[j]; k += kLanes) largest = fmaxf(largest, scores[k]);
    for (int apart = kLanes / 2; apart > 0; apart /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(half_mask(), largest, apart));
    }
    for (int k = lane(); k < kPage; k += kLanes) {
      const float p = k < q.keys[j] ? exp(scores[k] - largest) : 0.0f;
      scores[k] = p;
      total = total + p;
    }
    total = sum_lanes(total);
    float* max_sum = b.current(j, page.value_width) + page.value_width;
    if (lane() == 0) max_sum[0] = largest, max_sum[1] = total;
  }
  __syncthreads();
}

// current = sum over keys, ascending, of p * value. A thread has a column of a query.
template <class E>
__device__ void mix(const Block& b, const Page<E>& page, const Queries& q) {
  const int width = page.value_width;
  for (int item = q.first * width + threadIdx.x; item < q.end * width; item += kThreads) {
    const int j = item / width, d = item % width;
    const float* p = b.scores(j);
    const E* value = page.values + d;
    float acc = 0.0f;
#pragma unroll 4
    for (int k = 0; k < q.keys[j]; ++k) acc = fma(p[k], widen(value[k * page.value_stride]), acc);
    b.current(j, width)[d] = acc;
  }
  __syncthreads();
}

// into = earlier + into for queries [first, end), as (max, sum, value).
template <class Earlier, class Into>
__device__ void merge(int first, int end, int width, const Earlier& earlier, const Into& into) {
  __shared__ float keep[kQueries][2];
  for (int j = first + threadIdx.x; j < end; j += kThreads) {
    const float* from = earlier(j) + width;
    float* to = into(j) + width;
    const float largest = from[0] > to[0] ? from[0] : to[0];
    keep[j][0] = exp(from[0] - largest);
    keep[j][1] = exp(to[0] - largest);
    to[0] = largest;
    to[1] = from[1] * keep[j][0] + to[1] * keep[j][1];
  }
  __syncthreads();
  for (int item = first * width + threadIdx.x; item < end * width; item += kThreads) {
    const int j = item / width, d = item % width;
    into(j)[d] = fma(earlier(j)[d], keep[j][0], into(j)[d] * keep[j][1]);
  }
  __syncthreads();
}

// Files page `index` like one more in a binary counter: two subtrees of one size merge.
__device__ void push(const Block& b, const Queries& q, int64_t index, int width) {
  int level = 0;
  const auto current = [&](int j) { return b.current(j, width); };
  for (; (index >> level & 1) != 0; ++level) {
    merge(
        q.first, q.end, width, [&](int j) { return b.part(j, level, width); }, current);
  }
  for (int item = q.first * (width + 2) + threadIdx.x; item < q.end * (width + 2); item += kThreads) {
    const int j = item / (width + 2), d = item % (width + 2);
    b.part(j, level, width)[d] = current(j)[d];
  }
  __syncthreads();
}

// All pages of query j, merged from the smallest subtree up and divided by the sum.
__device__ float* finish(const Block& b, int j, int64_t pages, int width) {
  int level = 0;
  while ((pages >> level & 1) == 0) ++level;
  float* total = b.part(j, level, width);
  for (++level; pages >> level != 0; ++level) {
    if ((pages >> level & 1) == 0) continue;
    merge(
        j, j + 1, width, [&](int query) { return b.part(query, level, width); }, [&](int) { return total; });
  }
  const float sum = total[width + 1];
  for (int d = threadIdx.x; d < width; d += kThreads) total[d] = total[d] / sum;
  __syncthreads();
  return total;
}

template <class E>
__device__ void attend(const Block& b, const Page<E>& page, const Queries& q, int64_t index) {
  soften(b, page, q);
  mix(b, page, q);
  push(b, q, index, page.value_width);
}

// The first pool row of page `index` of sequence s.
template <class T>
__device__ const T* page_rows(const MlaAttention& a, int64_t s, int64_t index) {
  return row<T>(a.pool, row(a.sequences.pages, s)[index] * ops::kPageTokens);
}

__device__ int64_t position_of(const MlaAttention& a, int64_t s, int64_t t) {
  return a.sequences.position.data[s] + (t - a.sequences.row_begin.data[s]);
}

// queries[j] = [land(q_nope W_UK) | q_pe] of row t and head first + j. A thread has a column.
template <class T, class Row>
__device__ void absorb(const Block& b, int64_t t, int first, int count) {
  const MlaAttention& a = b.a;
  const int width = b.latent + b.shared;
  for (int item = threadIdx.x; item < count * width; item += kThreads) {
    const int j = item / width, k = item % width, h = first + j;
    const T* q = row<T>(a.q, t) + static_cast<int64_t>(h) * (b.nope + b.shared);
    float query = 0.0f;
    if (k < b.latent) {
      for (int c = 0; c < b.nope; ++c) {
        query = fma(widen(q[c]), Row(a.kv_b, static_cast<int64_t>(h) * (b.nope + b.value) + c).at(k), query);
      }
      query = landed<T>(query);
    } else {
      query = widen(q[b.nope + k - b.latent]);
    }
    b.queries()[item] = query;
  }
  __syncthreads();
}

// The canonical dot product with a row of weights, by a half-warp.
template <class Row, class X>
__device__ float dot_row(const Row& weight, const X* x, int n) {
  float acc = 0.0f;
#pragma unroll 4
  for (int k = lane(); k < n; k += kLanes) acc = fma(weight.at(k), widen(x[k]), acc);
  return sum_lanes(acc);
}

// out = W_UV land(z) for row t and head h.
template <class T, class Row>
__device__ void value_out(const Block& b, int64_t t, int h, float* mixed) {
  const MlaAttention& a = b.a;
  for (int k = threadIdx.x; k < b.latent; k += kThreads) mixed[k] = landed<T>(mixed[k]);
  __syncthreads();
  T* out = row<T>(a.out, t) + static_cast<int64_t>(h) * b.value;
  for (int v = half_warp(); v < b.value; v += half_warps()) {
    const Row weight(a.kv_b, static_cast<int64_t>(h) * (b.nope + b.value) + b.nope + v);
    const float x = dot_row(weight, mixed, b.latent);
    if (lane() == 0) out[v] = land<T>(x);
  }
  __syncthreads();
}

// Heads [first, first + count) of row t.
template <class T, class Row>
__device__ void absorbed_tile(const Block& b, int64_t t, int first, int count) {
  __shared__ int seen[kQueries];
  const MlaAttention& a = b.a;
  const int64_t s = a.sequences.row_sequence.data[t], keys = position_of(a, s, t) + 1;
  const int64_t pages = divide_up(keys, kPage);
  absorb<T, Row>(b, t, first, count);
  for (int64_t i = 0; i < pages; ++i) {
    const T* rows = page_rows<T>(a, s, i);
    const Page<T> page = {rows, a.pool.stride, b.latent + b.shared, rows, a.pool.stride, b.latent};
    const int64_t here = keys - i * kPage;
    if (threadIdx.x < count) seen[threadIdx.x] = here < kPage ? static_cast<int>(here) : kPage;
    __syncthreads();
    attend(b, page, {0, count, seen}, i);
  }
  for (int j = 0; j < count; ++j) value_out<T, Row>(b, t, first + j, finish(b, j, pages, b.latent));
}

// Keys and values of `count` positions of a page for head h, landed.
template <class T, class Row>
__device__ void expand(const Block& b, const T* rows, int h, int count) {
  const MlaAttention& a = b.a;
  const int key_width = b.nope + b.shared;
  for (int c = half_warp(); c < b.nope + b.value; c += half_warps()) {
    const Row weight(a.kv_b, static_cast<int64_t>(h) * (b.nope + b.value) + c);
    for (int k = 0; k < count; ++k) {
      const float x = landed<T>(dot_row(weight, rows + k * a.pool.stride, b.latent));
      if (lane() != 0) continue;
      if (c < b.nope)
        b.keys()[k * key_width + c] = x;
      else
        b.values()[k * b.value + c - b.nope] = x;
    }
  }
  for (int item = threadIdx.x; item < count * b.shared; item += kThreads) {
    const int k = item / b.shared, d = item % b.shared;
    b.keys()[k * key_width + b.nope + d] = widen(rows[k * a.pool.stride + b.latent + d]);
  }
  __syncthreads();
}

// Head h of rows [first, first + count), all of sequence s.
template <class T, class Row>
__device__ void expanded_tile(const Block& b, int64_t s, int h, int64_t first, int count) {
  __shared__ int seen[kQueries];
  const MlaAttention& a = b.a;
  const int width = b.nope + b.shared;
  const int64_t keys = position_of(a, s, first) + 1;  // of the first row
  for (int item = threadIdx.x; item < count * width; item += kThreads) {
    b.queries()[item] = widen((row<T>(a.q, first + item / width) + static_cast<int64_t>(h) * width)[item % width]);
  }
  __syncthreads();
  const Page<float> page = {b.keys(), width, width, b.values(), b.value, b.value};
  for (int64_t i = 0; i * kPage < keys + count - 1; ++i) {
    const int64_t here = keys + count - 1 - i * kPage, own = keys + threadIdx.x - i * kPage;
    if (threadIdx.x < count) seen[threadIdx.x] = static_cast<int>(own < 0 ? 0 : own < kPage ? own : kPage);
    expand<T, Row>(b, page_rows<T>(a, s, i), h, here < kPage ? static_cast<int>(here) : kPage);
    const int64_t before = i * kPage - keys + 1;  // rows that end before this page
    attend(b, page, {static_cast<int>(before > 0 ? before : 0), count, seen}, i);
  }
  for (int j = 0; j < count; ++j) {
    const float* value = finish(b, j, divide_up(keys + j, kPage), b.value);
    T* out = row<T>(a.out, first + j) + static_cast<int64_t>(h) * b.value;
    for (int k = threadIdx.x; k < b.value; k += kThreads) out[k] = land<T>(value[k]);
  }
  __syncthreads();
}

__device__ Block block_of(const MlaAttention& a, const Layout& layout) {
  return {a,
          layout,
          reinterpret_cast<float*>(a.scratch.data) + blockIdx.x * layout.floats,
          static_cast<int>(a.kv_b.cols),
          static_cast<int>(a.nope_dim),
          static_cast<int>(a.shared_dim),
          static_cast<int>(a.value_dim)};
}

template <class T, class Row>
__global__ void __launch_bounds__(kThreads) absorbed_kernel(MlaAttention a, Layout layout) {
  const Block b = block_of(a, layout);
  constexpr int64_t kTile = kHeadTile;
  const int64_t tiles = divide_up(a.heads, kTile);
  for (int64_t i = blockIdx.x; i < a.q.rows * tiles; i += gridDim.x) {
    const int64_t first = i % tiles * kTile, left = a.heads - first;
    absorbed_tile<T, Row>(b, i / tiles, static_cast<int>(first), static_cast<int>(left < kTile ? left : kTile));
  }
}

// Rows are cut at multiples of the tile and where a sequence ends.
template <class T, class Row>
__global__ void __launch_bounds__(kThreads) expanded_kernel(MlaAttention a, Layout layout) {
  const Block b = block_of(a, layout);
  constexpr int64_t kTile = kRowTile;
  for (int64_t i = blockIdx.x; i < divide_up(a.q.rows, kTile) * a.heads; i += gridDim.x) {
    int64_t t = i / a.heads * kTile;
    const int64_t tile_end = t + kTile < a.q.rows ? t + kTile : a.q.rows;
    while (t < tile_end) {
      const int64_t s = a.sequences.row_sequence.data[t], last = a.sequences.row_begin.data[s + 1];
      const int64_t stop = last < tile_end ? last : tile_end;
      expanded_tile<T, Row>(b, s, static_cast<int>(i % a.heads), t, static_cast<int>(stop - t));
      t = stop;
    }
  }
}

}  // namespace

// A slice a multiprocessor.
size_t mla_attention_scratch(const Device& device, int64_t latent_dim, int64_t nope_dim, int64_t shared_dim,
                             int64_t value_dim, int64_t max_positions) {
  const int64_t pages = divide_up(max_positions, kPage);
  return static_cast<size_t>(layout_of(latent_dim, nope_dim, shared_dim, value_dim, pages).floats *
                             device.concurrency()) *
         sizeof(float);
}

void mla_attention(Device& device, const MlaAttention& a) {
  const Layout layout = layout_of(a.kv_b.cols, a.nope_dim, a.shared_dim, a.value_dim, a.sequences.pages.cols);
  const bool absorbed = a.form == ops::MlaForm::kAbsorbed;
  const int64_t items = absorbed ? a.q.rows * divide_up(a.heads, kHeadTile) : divide_up(a.q.rows, kRowTile) * a.heads;
  const LaunchShape shape = {.x = items < device.concurrency() ? items : device.concurrency(), .threads = kThreads};
  with_row_type(a.kv_b.format, [&]<class Row>() {
    with_dtype(a.out.dtype, [&]<class T>() {
      launch(device, "mla_attention", absorbed ? absorbed_kernel<T, Row> : expanded_kernel<T, Row>, shape, a, layout);
    });
  });
}

}  // namespace nibble::cuda
