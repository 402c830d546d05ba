// A block has one head of one sequence and walks its rows segment by segment, as the CPU does: the rows of a segment
// that are in the step go together, and each number is computed by the same operations in the same order as if they
// came one by one. One row or sixteen: the same dots over K in sixteen lanes, the same sums over j.
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/math.cuh"
#include "ops/kda_rows.h"

namespace nibble::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kSegment = static_cast<int>(ops::kSegmentTokens);

// One head of one slot.
struct Head {
  int key_dim, value_dim;
  float* state;    // [V, K]
  float* records;  // [16, 2 K + V]
  __device__ float* cumulative(int i) const { return records + static_cast<int64_t>(i) * (2 * key_dim + value_dim); }
  __device__ float* key(int i) const { return cumulative(i) + key_dim; }
  __device__ float* value(int i) const { return cumulative(i) + 2 * key_dim; }
};

// Shared memory; rows are counted from the segment's start.
struct Shared {
  float *key, *query;                // [16, K] k e^G, q e^G
  float *scaled_key, *scaled_query;  // [16, K] k e^G c, q e^G c
  float *predicted, *read;           // [16, V] S0 (k e^G), S0 (q e^G)
  float *a, *b;                      // [16, 16]
  float *key_scale, *query_scale;    // [16] what brings k and q to their lengths
  __device__ Shared(float* p, int key_dim, int value_dim)
      : key(p),
        query(key + kSegment * key_dim),
        scaled_key(query + kSegment * key_dim),
        scaled_query(scaled_key + kSegment * key_dim),
        predicted(scaled_query + kSegment * key_dim),
        read(predicted + kSegment * value_dim),
        a(read + kSegment * value_dim),
        b(a + kSegment * kSegment),
        key_scale(b + kSegment * kSegment),
        query_scale(key_scale + kSegment) {}
};

// Rows [first, end) of a segment; `start` is the step's row of the segment's position 0, which may lie before the step.
template <class T>
struct Rows16 {
  const ops::KdaRows& args;
  int64_t start;
  int first, end, head;
  bool fresh;  // S0 counts as zero
  __device__ const T* q(int i) const { return row<T>(args.q, start + i) + head * args.key_dim; }
  __device__ const T* k(int i) const { return row<T>(args.k, start + i) + head * args.key_dim; }
  __device__ const T* v(int i) const { return row<T>(args.v, start + i) + head * args.value_dim; }
  __device__ const float* decay(int i) const { return row(args.decay, start + i) + head * args.key_dim; }
  __device__ float beta(int i) const { return row(args.beta, start + i)[head]; }
  __device__ T* out(int i) const { return row<T>(args.out, start + i) + head * args.value_dim; }
};

template <class T>
__device__ void measure(const Head& head, const Shared& s, const Rows16<T>& rows) {
  const int n = head.key_dim;
  for (int item = 2 * rows.first + half_warp(); item < 2 * rows.end; item += half_warps()) {
    const int i = item / 2;
    const bool is_key = item % 2 == 0;
    const T* x = is_key ? rows.k(i) : rows.q(i);
    const float unit = 1.0f / sqrtf(dot(x, x, n) + 1e-6f);
    if (lane() == 0) (is_key ? s.key_scale : s.query_scale)[i] = is_key ? unit : unit / sqrtf(static_cast<float>(n));
  }
}

// G and k~ of the rows into their records, the other factors into shared memory. A thread has a channel.
template <class T>
__device__ void enter(const Head& head, const Shared& s, const Rows16<T>& rows) {
  const int n = head.key_dim;
  for (int c = threadIdx.x; c < n; c += kThreads) {
    float g = rows.first == 0 ? 0.0f : head.cumulative(rows.first - 1)[c];
    for (int i = rows.first; i < rows.end; ++i) {
      g = g + rows.decay(i)[c];
      const float key = widen(rows.k(i)[c]) * s.key_scale[i], query = widen(rows.q(i)[c]) * s.query_scale[i];
      const float factor = exp(g), scaled = factor * ops::kKdaScale;
      head.cumulative(i)[c] = g;
      head.key(i)[c] = key * (exp(0.0f - g) * (1.0f / ops::kKdaScale));
      s.key[i * n + c] = key * factor;
      s.query[i * n + c] = query * factor;
      s.scaled_key[i * n + c] = key * scaled;
      s.scaled_query[i * n + c] = query * scaled;
    }
  }
}

// a and b of the rows with all rows of the segment up to them.
template <class T>
__device__ void relate(const Head& head, const Shared& s, const Rows16<T>& rows) {
  const int n = head.key_dim;
  for (int item = rows.first * kSegment + half_warp(); item < rows.end * kSegment; item += half_warps()) {
    const int i = item / kSegment, j = item % kSegment;
    if (j > i) continue;
    const float a = dot(head.key(j), s.scaled_key + i * n, n), b = dot(head.key(j), s.scaled_query + i * n, n);
    if (lane() == 0) s.a[item] = a, s.b[item] = b;
  }
}

// S0 (k e^G) and S0 (q e^G) of the rows. A half-warp has a row of S0.
template <class T>
__device__ void read_state(const Head& head, const Shared& s, const Rows16<T>& rows) {
  const int n = head.key_dim;
  for (int v = half_warp(); v < head.value_dim; v += half_warps()) {
    const float* state = head.state + static_cast<int64_t>(v) * n;
    for (int i = rows.first; i < rows.end; ++i) {
      const float predicted = dot(state, s.key + i * n, n), read = dot(state, s.query + i * n, n);
      if (lane() == 0) s.predicted[i * head.value_dim + v] = predicted, s.read[i * head.value_dim + v] = read;
    }
  }
}

// v' of the rows into their records, and their outputs. A thread has a channel: it needs its own channel's records
// only.
template <class T>
__device__ void finish(const Head& head, const Shared& s, const Rows16<T>& rows) {
  for (int c = threadIdx.x; c < head.value_dim; c += kThreads) {
    for (int i = rows.first; i < rows.end; ++i) {
      const float *a = s.a + i * kSegment, *b = s.b + i * kSegment;
      float value = widen(rows.v(i)[c]), o = 0.0f;
      if (!rows.fresh) {
        value = value - s.predicted[i * head.value_dim + c];
        o = s.read[i * head.value_dim + c];
      }
      for (int j = 0; j < i; ++j) {
        const float earlier = head.value(j)[c];
        value = fma(-a[j], earlier, value);
        o = fma(b[j], earlier, o);
      }
      value = value * rows.beta(i);
      head.value(i)[c] = value;
      rows.out(i)[c] = land<T>(fma(b[i], value, o));
    }
  }
}

// S0 <- S0 e^G_15 + sum_j v'_j (k~_j e^G_15 c)^T. A thread has a key channel, and every few rows of S0.
__device__ void fold(const Head& head, bool fresh) {
  const int n = head.key_dim, parts = n < kThreads ? kThreads / n : 1;
  for (int item = threadIdx.x; item < n * parts; item += kThreads) {
    const int c = item % n;
    const float factor = exp(head.cumulative(kSegment - 1)[c]), scaled = factor * ops::kKdaScale;
    float key[kSegment];
#pragma unroll
    for (int j = 0; j < kSegment; ++j) key[j] = head.key(j)[c] * scaled;
    for (int v = item / n; v < head.value_dim; v += parts) {
      float* state = head.state + static_cast<int64_t>(v) * n + c;
      float sum = fresh ? 0.0f : *state * factor;
#pragma unroll
      for (int j = 0; j < kSegment; ++j) sum = fma(head.value(j)[v], key[j], sum);
      *state = sum;
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) kda_rows_kernel(ops::KdaRows a) {
  extern __shared__ float memory[];
  const int sequences = static_cast<int>(a.sequences.slot.size);
  const int sequence = static_cast<int>(blockIdx.x) % sequences, h = static_cast<int>(blockIdx.x) / sequences;
  const int key_dim = static_cast<int>(a.key_dim), value_dim = static_cast<int>(a.value_dim);
  const int64_t slot = a.sequences.slot.data[sequence] * a.heads + h;
  const Head head = {key_dim, value_dim, a.state.data + slot * value_dim * key_dim,
                     a.records.data + slot * kSegment * (2 * key_dim + value_dim)};
  const Shared s(memory, key_dim, value_dim);
  int64_t t = a.sequences.row_begin.data[sequence], position = a.sequences.position.data[sequence];
  const int64_t end = a.sequences.row_begin.data[sequence + 1];
  while (t < end) {
    const int first = static_cast<int>(position % kSegment);
    const int count = static_cast<int>(end - t < kSegment - first ? end - t : kSegment - first);
    const Rows16<T> rows = {a, t - first, first, first + count, h, position < kSegment};
    measure(head, s, rows);
    __syncthreads();
    enter(head, s, rows);
    __syncthreads();
    relate(head, s, rows);
    if (!rows.fresh) read_state(head, s, rows);
    __syncthreads();
    finish(head, s, rows);
    __syncthreads();
    if (rows.end == kSegment) fold(head, rows.fresh);
    __syncthreads();
    t += count;
    position += count;
  }
}

}  // namespace

// Heads outermost, as on the CPU.
void kda_rows(Device& device, const ops::KdaRows& a) {
  const LaunchShape shape = {.x = a.heads * a.sequences.slot.size,
                             .threads = kThreads,
                             .shared = kda_rows_shared_bytes(a.key_dim, a.value_dim)};
  with_dtype(a.q.dtype, [&]<class T>() { launch(device, "kda_rows", kda_rows_kernel<T>, shape, a); });
}

}  // namespace nibble::cuda
