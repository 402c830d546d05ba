// out_p = x W_p^T. Few rows: a pair of threads a weight row, straight from memory. Many: tiles in shared memory, a
// half-warp for each 8 x 8 of outputs, every lane with its own column of K. Both add in the canonical order, so which
// one runs does not show.
#include "cuda/kernels/dots.cuh"
#include "cuda/kernels/kernels.h"
#include "ops/linear.h"

namespace nibble::cuda {
namespace {

using ops::Linear;

// The parts of one format, with the blocks of each counted.
struct Parts {
  Linear::Part part[Linear::kMaxParts];
  int64_t end[Linear::kMaxParts];  // of its blocks among all
  int count = 0;
};

// The part that a block is in, and the first of its weight rows.
struct Place {
  const Linear::Part& part;
  int64_t first;
};
__device__ __forceinline__ Place place(const Parts& parts, int rows_a_block) {
  const int64_t block = blockIdx.x;
  int p = 0;
  while (block >= parts.end[p]) ++p;
  return {parts.part[p], (block - (p == 0 ? 0 : parts.end[p - 1])) * rows_a_block};
}

__device__ __forceinline__ void store(const Rows& out, int64_t t, int64_t n, float value) {
  if (out.dtype == DType::kBf16)
    row<Bf16>(out, t)[n] = to_bf16(value);
  else
    row<float>(out, t)[n] = value;
}

template <class X, class Row, int kTokens, bool kVector>
__global__ void __launch_bounds__(kFewThreads) few_kernel(ConstRows x, Parts parts) {
  const Place at = place(parts, kFewRows);
  const int64_t n = at.first + pair(), last = at.part.weight.rows - 1;
  const Row weight(at.part.weight, n < last ? n : last);
  const int64_t first = static_cast<int64_t>(blockIdx.y) * kTokens;
  const X* rows[kTokens];
#pragma unroll
  for (int t = 0; t < kTokens; ++t) rows[t] = row<X>(x, first + t < x.rows ? first + t : x.rows - 1);
  float out[kTokens];
  dots<kTokens, kVector>(weight, x.cols, rows, out);
  if (n > last || threadIdx.x % kPair != 0) return;
#pragma unroll
  for (int t = 0; t < kTokens; ++t) {
    if (first + t < x.rows) store(at.part.out, first + t, n, out[t]);
  }
}

constexpr int kTile = 32, kSide = 8, kDepth = 64, kManyThreads = 256;
constexpr int kPitch = kDepth + 2;  // eight rows apart is sixteen banks apart, where the other half-warp reads

template <class X, class Row>
__global__ void __launch_bounds__(kManyThreads) many_kernel(ConstRows x, Parts parts) {
  __shared__ float weights[kTile][kPitch], values[kTile][kPitch];
  const Place at = place(parts, kTile);
  const int64_t token = static_cast<int64_t>(blockIdx.y) * kTile, last = at.part.weight.rows - 1;
  // Loading: thread i has columns 8 (i % 8) .. of row i / 8, of both.
  const int load_row = static_cast<int>(threadIdx.x) / kColumns, column = static_cast<int>(threadIdx.x) % 8 * kColumns;
  const Row weight(at.part.weight, at.first + load_row < last ? at.first + load_row : last);
  const X* value = row<X>(x, token + load_row < x.rows ? token + load_row : x.rows - 1);
  // Computing: the half-warp's corner of the tile.
  const int n = half_warp() % (kTile / kSide) * kSide, t = half_warp() / (kTile / kSide) * kSide;
  float acc[kSide][kSide] = {};
  for (int64_t base = 0; base < x.cols; base += kDepth) {
    const int64_t k = base + column;
    float w[kColumns] = {}, v[kColumns] = {};
    if (k < x.cols) {
      weight.template load<true>(k, w);
      load_columns<true>(value + k, x.cols - k, v);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kColumns; ++i) weights[load_row][column + i] = w[i], values[load_row][column + i] = v[i];
    __syncthreads();
#pragma unroll
    for (int step = 0; step < kDepth; step += kLanes) {
      float wide_w[kSide], wide_x[kSide];
#pragma unroll
      for (int i = 0; i < kSide; ++i) {
        wide_w[i] = weights[n + i][step + lane()];
        wide_x[i] = values[t + i][step + lane()];
      }
#pragma unroll
      for (int i = 0; i < kSide; ++i) {
#pragma unroll
        for (int j = 0; j < kSide; ++j) acc[i][j] = fma(wide_w[i], wide_x[j], acc[i][j]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
#pragma unroll
    for (int j = 0; j < kSide; ++j) {
      const float sum = sum_lanes(acc[i][j]);
      const int64_t out_row = token + t + j, out_column = at.first + n + i;
      if (lane() == (i * kSide + j) % kLanes && out_row < x.rows && out_column <= last) {
        store(at.part.out, out_row, out_column, sum);
      }
    }
  }
}

// The parts of `format`; empty if there are none.
Parts parts_of(const Linear& a, fp4::WeightFormat format, int rows_a_block) {
  Parts out;
  int64_t blocks = 0;
  for (int p = 0; p < a.part_count; ++p) {
    if (a.parts[p].weight.format != format) continue;
    blocks += divide_up(a.parts[p].weight.rows, rows_a_block);
    out.part[out.count] = a.parts[p];
    out.end[out.count++] = blocks;
  }
  return out;
}

bool all_wide(const Linear& a) {
  bool out = wide(a.x);
  for (int p = 0; p < a.part_count; ++p) out = out && wide(a.parts[p].weight.codes, a.x.cols);
  return out;
}

template <class X, class Row>
void multiply(Device& device, const Linear& a, fp4::WeightFormat format) {
  const int64_t rows = a.x.rows;
  const bool vector = all_wide(a), many = vector && rows > kFewTokens;
  const Parts parts = parts_of(a, format, many ? kTile : kFewRows);
  if (parts.count == 0) return;
  const int64_t blocks = parts.end[parts.count - 1];
  if (many) {
    launch(device, "linear", many_kernel<X, Row>, {.x = blocks, .y = divide_up(rows, kTile), .threads = kManyThreads},
           a.x, parts);
    return;
  }
  const auto few = [&]<int kTokens, bool kVector>() {
    launch(device, "linear", few_kernel<X, Row, kTokens, kVector>,
           {.x = blocks, .y = divide_up(rows, kTokens), .threads = kFewThreads}, a.x, parts);
  };
  if (!vector)
    few.template operator()<1, false>();  // widths that no model has
  else if (rows == 1)
    few.template operator()<1, true>();
  else if (rows <= 4)
    few.template operator()<4, true>();
  else
    few.template operator()<kFewTokens, true>();
}

}  // namespace

void linear(Device& device, const Linear& a) {
  using fp4::WeightFormat;
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBf16, WeightFormat::kMxfp4, WeightFormat::kNvfp4,
                                    WeightFormat::kFp8Block, WeightFormat::kMxfp8}) {
    with_row_type(format,
                  [&]<class Row>() { with_dtype(a.x.dtype, [&]<class X>() { multiply<X, Row>(device, a, format); }); });
  }
}

}  // namespace nibble::cuda
