#include "ops/mla_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/device.h"
#include "ops/check.h"
#include "ops/kernel_table.h"
#include "ops/reference.h"

namespace nibble::ops {
namespace {

void check_shapes(const MlaAttention& a) {
  constexpr const char* kOp = "mla_attention";
  const int64_t rows = a.q.rows, heads = a.heads, latent = a.kv_b.cols;
  require(heads >= 1 && a.nope_dim >= 1 && a.shared_dim >= 0 && a.value_dim >= 1 && latent >= 1, kOp,
          "heads and widths are positive");
  require(a.q.cols == heads * (a.nope_dim + a.shared_dim), kOp, "q is [T, A * (C + P)]");
  require(a.kv_b.rows == heads * (a.nope_dim + a.value_dim), kOp, "kv_b is [A * (C + V), R]");
  require(latent % group_columns(a.kv_b.format) == 0, kOp, "R is a multiple of the format's group");
  require(a.pool.cols == latent + a.shared_dim && a.pool.rows % kPageTokens == 0, kOp, "pool is [pages * 64, R + P]");
  require(a.out.rows == rows && a.out.cols == heads * a.value_dim, kOp, "out is [T, A * V]");
  require(a.q.dtype == a.out.dtype && a.pool.dtype == a.out.dtype, kOp, "q, pool and out are of one dtype");
  require(a.sequences.row_begin.size == a.sequences.position.size + 1, kOp, "row_begin is [S + 1], position [S]");
  require(a.sequences.pages.rows == a.sequences.position.size, kOp, "pages is [S, P]");
  require(a.sequences.row_sequence.size == rows, kOp, "row_sequence is [T]");
}

void check(const MlaAttention& a) {
  constexpr const char* kOp = "mla_attention";
  check_shapes(a);
  require(!overlap(a.out, a.q) && !overlap(a.out, a.pool) && !overlap(a.out, a.scratch), kOp,
          "out apart from q, pool and scratch");
  require(!overlap(a.scratch, a.q) && !overlap(a.scratch, a.pool), kOp, "scratch apart from q and pool");
}

double product(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// Keys [count, C + P] and values [count, V] of one head, widened from the first `count` positions of sequence s.
struct Head {
  Head(const MlaAttention& a, int64_t s, int64_t head, int64_t count)
      : key_width(a.nope_dim + a.shared_dim), value_width(a.value_dim) {
    const int64_t latent = a.kv_b.cols, rows = a.nope_dim + a.value_dim;
    std::vector<double> weight, pool_row(static_cast<size_t>(a.pool.cols));
    for (int64_t c = 0; c < rows; ++c) {
      for (int64_t r = 0; r < latent; ++r) weight.push_back(get(a.kv_b, head * rows + c, r));
    }
    for (int64_t key = 0; key < count; ++key) {
      const int64_t page = a.sequences.pages.row(s)[key / kPageTokens];
      for (int64_t r = 0; r < a.pool.cols; ++r) {
        pool_row[static_cast<size_t>(r)] = get(a.pool, page * kPageTokens + key % kPageTokens, r);
      }
      for (int64_t c = 0; c < rows; ++c) {
        (c < a.nope_dim ? keys : values).push_back(product(pool_row.data(), weight.data() + c * latent, latent));
      }
      keys.insert(keys.end(), pool_row.begin() + latent, pool_row.end());
    }
  }
  const double* key(int64_t i) const { return keys.data() + i * key_width; }
  double value(int64_t i, int64_t v) const { return values[static_cast<size_t>(i * value_width + v)]; }

  int64_t key_width, value_width;
  std::vector<double> keys, values;
};

// Row t of a head over its first `count` keys.
void attend(const MlaAttention& a, const Head& head, int64_t h, int64_t t, int64_t count) {
  std::vector<double> query(static_cast<size_t>(head.key_width)), p(static_cast<size_t>(count));
  for (int64_t i = 0; i < head.key_width; ++i) query[static_cast<size_t>(i)] = get(a.q, t, h * head.key_width + i);
  for (int64_t k = 0; k < count; ++k) {
    p[static_cast<size_t>(k)] = product(query.data(), head.key(k), head.key_width) * static_cast<double>(a.scale);
  }
  const double largest = *std::max_element(p.begin(), p.end());
  double total = 0;
  for (double& x : p) total += x = std::exp(x - largest);
  for (int64_t v = 0; v < a.value_dim; ++v) {
    double mixed = 0;
    for (int64_t k = 0; k < count; ++k) mixed += p[static_cast<size_t>(k)] / total * head.value(k, v);
    put(a.out, t, h * a.value_dim + v, mixed);
  }
}

}  // namespace

size_t mla_attention_scratch_bytes(const Device& device, int64_t latent_dim, int64_t nope_dim, int64_t shared_dim,
                                   int64_t value_dim, int64_t max_positions) {
  return device.kernels().scratch->mla_attention(device, latent_dim, nope_dim, shared_dim, value_dim, max_positions);
}

void mla_attention(Device& device, const MlaAttention& args) {
  check(args);
  require(static_cast<size_t>(args.scratch.size) >=
              mla_attention_scratch_bytes(device, args.kv_b.cols, args.nope_dim, args.shared_dim, args.value_dim,
                                          args.sequences.pages.cols * kPageTokens),
          "mla_attention", "scratch as mla_attention_scratch_bytes says");
  if (args.q.rows != 0) device.kernels().mla_attention(device, args);
}

void reference::mla_attention(const MlaAttention& args) {
  check(args);
  const Sequences& s = args.sequences;
  for (int64_t i = 0; i < s.position.size; ++i) {
    const int64_t first = s.row_begin.data[i], end = s.row_begin.data[i + 1], position = s.position.data[i];
    for (int64_t h = 0; h < args.heads && first < end; ++h) {
      const Head head(args, i, h, position + (end - first));
      for (int64_t t = first; t < end; ++t) attend(args, head, h, t, position + (t - first) + 1);
    }
  }
}

}  // namespace nibble::ops
