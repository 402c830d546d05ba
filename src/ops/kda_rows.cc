#include "ops/kda_rows.h"

#include <cmath>

#include "base/device.h"
#include "ops/check.h"
#include "ops/kernel_table.h"
#include "ops/reference.h"

namespace nibble::ops {
namespace {

void check(const KdaRows& a) {
  constexpr const char* kOp = "kda_rows";
  const int64_t rows = a.q.rows, keys = a.heads * a.key_dim, values = a.heads * a.value_dim;
  require(a.heads >= 1 && a.key_dim >= 1 && a.value_dim >= 1, kOp, "heads, key_dim and value_dim at least 1");
  require(a.q.cols == keys && a.k.cols == keys && a.k.rows == rows, kOp, "q and k are [T, A * K]");
  require(a.v.rows == rows && a.v.cols == values, kOp, "v is [T, A * V]");
  require(a.out.rows == rows && a.out.cols == values, kOp, "out is [T, A * V]");
  require(a.k.dtype == a.q.dtype && a.v.dtype == a.q.dtype && a.out.dtype == a.q.dtype, kOp,
          "q, k, v and out share a dtype");
  require(a.decay.rows == rows && a.decay.cols == keys, kOp, "decay is [T, A * K]");
  require(a.beta.rows == rows && a.beta.cols == a.heads, kOp, "beta is [T, A]");
  const int64_t state = values * a.key_dim, records = a.heads * kSegmentTokens * (2 * a.key_dim + a.value_dim);
  require(a.state.size % state == 0, kOp, "state is [slots, A, V, K]");
  require(a.records.size == a.state.size / state * records, kOp, "records are [slots, A, 16, 2 K + V]");
  const int64_t sequences = a.sequences.slot.size;
  require(a.sequences.row_begin.size == sequences + 1 && a.sequences.position.size == sequences, kOp,
          "row_begin is [S + 1], position and slot are [S]");
  require(!overlap(a.out, a.q) && !overlap(a.out, a.k) && !overlap(a.out, a.v) && !overlap(a.out, a.decay) &&
              !overlap(a.out, a.beta) && !overlap(a.out, a.state) && !overlap(a.out, a.records),
          kOp, "out apart from inputs");
}

// A head's channels of one row, of length `scale` unless the row is nearly zero.
std::vector<double> normalised(const ConstRows& x, int64_t t, int64_t head, int64_t width, double scale) {
  std::vector<double> out(static_cast<size_t>(width));
  double squares = 1e-6;
  for (int64_t i = 0; i < width; ++i) squares += std::pow(get(x, t, head * width + i), 2);
  for (int64_t i = 0; i < width; ++i) {
    out[static_cast<size_t>(i)] = get(x, t, head * width + i) / std::sqrt(squares) * scale;
  }
  return out;
}

double dot(const double* a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < b.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// One token of one head: `state` [V, K] is advanced, out gets its row.
void advance(const KdaRows& a, int64_t t, int64_t head, std::vector<double>& state) {
  const int64_t key_dim = a.key_dim, value_dim = a.value_dim;
  const std::vector<double> q = normalised(a.q, t, head, key_dim, 1 / std::sqrt(static_cast<double>(key_dim)));
  const std::vector<double> k = normalised(a.k, t, head, key_dim, 1);
  const auto beta = static_cast<double>(a.beta.row(t)[head]);
  std::vector<double> factor(static_cast<size_t>(key_dim));
  for (int64_t i = 0; i < key_dim; ++i) {
    factor[static_cast<size_t>(i)] = std::exp(static_cast<double>(a.decay.row(t)[head * key_dim + i]));
  }
  for (int64_t v = 0; v < value_dim; ++v) {
    double* s = state.data() + v * key_dim;
    for (int64_t i = 0; i < key_dim; ++i) s[i] *= factor[static_cast<size_t>(i)];
    const double delta = beta * (get(a.v, t, head * value_dim + v) - dot(s, k));
    for (int64_t i = 0; i < key_dim; ++i) s[i] += delta * k[static_cast<size_t>(i)];
    put(a.out, t, head * value_dim + v, dot(s, q));
  }
}

}  // namespace

size_t kda_rows_scratch_bytes(const Device& device, int64_t key_dim, int64_t value_dim) {
  return device.kernels().scratch->kda_rows(device, key_dim, value_dim);
}

void kda_rows(Device& device, const KdaRows& args) {
  check(args);
  require(static_cast<size_t>(args.scratch.size) >= kda_rows_scratch_bytes(device, args.key_dim, args.value_dim),
          "kda_rows", "scratch of kda_rows_scratch_bytes");
  require(!overlap(args.out, args.scratch), "kda_rows", "out apart from scratch");
  if (args.q.rows != 0) device.kernels().kda_rows(device, args);
}

void reference::kda_rows(const KdaRows& args, std::vector<double>* states) {
  check(args);
  const KdaPools pools = {args.state, args.records, args.heads, args.key_dim, args.value_dim};
  if (states != nullptr) states->clear();
  for (int64_t s = 0; s < args.sequences.slot.size; ++s) {
    for (int64_t h = 0; h < args.heads; ++h) {
      std::vector<double> state =
          recurrent_state(pools, args.sequences.slot.data[s], h, args.sequences.position.data[s]);
      for (int64_t t = args.sequences.row_begin.data[s]; t < args.sequences.row_begin.data[s + 1]; ++t) {
        advance(args, t, h, state);
      }
      if (states != nullptr) states->insert(states->end(), state.begin(), state.end());
    }
  }
}

std::vector<double> reference::recurrent_state(const KdaPools& pools, int64_t slot, int64_t head, int64_t position) {
  const int64_t key_dim = pools.key_dim, value_dim = pools.value_dim, width = 2 * key_dim + value_dim;
  const int64_t used = position % kSegmentTokens, index = slot * pools.heads + head;
  const float* s0 = pools.state.data + index * value_dim * key_dim;
  const float* records = pools.records.data + index * kSegmentTokens * width;
  constexpr auto kScale = static_cast<double>(kKdaScale);
  std::vector<double> out(static_cast<size_t>(value_dim * key_dim));
  for (int64_t k = 0; k < key_dim; ++k) {
    const double last = used == 0 ? 0.0 : static_cast<double>(records[(used - 1) * width + k]);  // G
    for (int64_t v = 0; v < value_dim && position >= kSegmentTokens; ++v) {
      out[static_cast<size_t>(v * key_dim + k)] = static_cast<double>(s0[v * key_dim + k]) * std::exp(last);
    }
    for (int64_t j = 0; j < used; ++j) {
      const float* record = records + j * width;
      const double key = static_cast<double>(record[key_dim + k]) * std::exp(last) * kScale;
      for (int64_t v = 0; v < value_dim; ++v) {
        out[static_cast<size_t>(v * key_dim + k)] += static_cast<double>(record[2 * key_dim + v]) * key;
      }
    }
  }
  return out;
}

}  // namespace nibble::ops
