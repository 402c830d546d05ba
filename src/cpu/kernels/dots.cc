// For up to three activation rows, weights are widened in registers on their way from memory; for more, eight weight
// rows are widened once into a panel that stays in the first-level cache, and the whole block of activations passes
// over it.
#include "cpu/kernels/dots.h"

#include "cpu/kernels/pair_dots.h"
#include "cpu/kernels/weights.h"

namespace nibble::cpu::NIBBLE_ISA {
namespace {

constexpr int kTileRows = 4;  // 4 x 3 accumulators, three activations and a weight: AVX2's sixteen registers
constexpr int kTileTokens = 3;
constexpr int64_t kPanelRows = 8, kPanelColumns = 512;  // 16 KiB, half of the first-level cache
constexpr int64_t kPair = 2 * kLanes;                   // columns that weights are unpacked in
constexpr int64_t kAhead = 1024;                        // bytes: how far a stream is fetched before it is read

template <Order kOrder, class X>
NIBBLE_INLINE F16 fetch(const X* p) {
  if constexpr (kOrder == Order::kSplit)
    return load_split(p);
  else
    return load(p);
}
// One native vector of that: lanes part * kNativeLanes and on.
template <Order kOrder, class X>
NIBBLE_INLINE NativeF fetch_part(const X* p, int part) {
  if constexpr (kOrder == Order::kSplit) {
    return load_split(p).part[part];
  } else if constexpr (sizeof(X) == 2) {
    return native_load_bf16(reinterpret_cast<const uint16_t*>(p) + part * kNativeLanes);
  } else {
    return native_load(p + part * kNativeLanes);
  }
}

template <Order kOrder, class Row>
NIBBLE_INLINE void unpack(const Row& row, int64_t k, F16* out) {
  if constexpr (kOrder == Order::kNatural) {
    out[0] = row.at(k);
    out[1] = row.at(k + kLanes);
  } else {
    row.template unpack<kOrder>(k, out);
  }
}

// The last columns, fewer than kPair: sixteen from k on, those past the end as zeros.
template <Order kOrder, class Row>
NIBBLE_INLINE F16 unpack_rest(const Row& row, int64_t k, int64_t cols) {
  if constexpr (Row::kHasTail) {
    if (cols - k < kLanes) return from_natural<kOrder>(row.tail(k, cols - k));
  }
  return from_natural<kOrder>(row.at(k));
}

// kRows weight rows with kTokens activations: as many streams from memory, far from each other, so that none waits for
// another's misses.
template <int kRows, int kTokens, Order kOrder, class Row, class X>
void stream(const Row* rows, int64_t cols, const X* const* x, float (*out)[kRows]) {
  F16 acc[kTokens][kRows];
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) acc[t][r] = zero();
  }
  int64_t k = 0;
  for (; k + kPair <= cols; k += kPair) {
    F16 v[kTokens][2];
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
      v[t][0] = fetch<kOrder>(x[t] + k);
      v[t][1] = fetch<kOrder>(x[t] + k + kLanes);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      if constexpr (kTokens == 1 && Row::kPaired) {
        __builtin_prefetch(static_cast<const char*>(rows[r].bytes(k)) + kAhead);
      }
      F16 w[2];
      unpack<kOrder>(rows[r], k, w);
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) acc[t][r] = fma(w[1], v[t][1], fma(w[0], v[t][0], acc[t][r]));
    }
  }
  for (; k < cols; k += kLanes) {
    const int64_t count = cols - k < kLanes ? cols - k : kLanes;
    for (int t = 0; t < kTokens; ++t) {
      F16 v;
      if constexpr (kOrder == Order::kNibble)
        v = load(x[t] + k);
      else
        v = from_natural<kOrder>(load_n(x[t] + k, count));
      for (int r = 0; r < kRows; ++r) acc[t][r] = fma(unpack_rest<kOrder>(rows[r], k, cols), v, acc[t][r]);
    }
  }
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) out[t][r] = sum<kOrder>(acc[t][r]);
  }
}

template <int kTokens, Order kOrder, class Row, class X>
void stream_block(const ops::WeightMatrix& w, int64_t n, int64_t count, const X* const* x, Block& out) {
  constexpr int kRows = kTokens == 1 || kParts == 1 ? 4 : 2;
  const int64_t each = (count + kRows - 1) / kRows;
  for (int64_t i = 0; i < each; ++i) {
    const auto row = [&](int64_t r) { return Row(w, n + (i + r * each < count ? i + r * each : count - 1)); };
    float values[kTokens][kRows];
    if constexpr (kRows == 4) {
      const Row rows[4] = {row(0), row(1), row(2), row(3)};
      stream<kRows, kTokens, kOrder>(rows, w.cols, x, values);
    } else {
      const Row rows[2] = {row(0), row(1)};
      stream<kRows, kTokens, kOrder>(rows, w.cols, x, values);
    }
    for (int t = 0; t < kTokens; ++t) {
      for (int r = 0; r < kRows && i + r * each < count; ++r) out[t][i + r * each] = values[t][r];
    }
  }
}

struct Accumulators {
  float lane[kBlockTokens][kPanelRows][kLanes];
};
struct Panel {
  float row[kPanelRows][kPanelColumns];
};

// Adds the products of `width` columns to the accumulators of kTokens rows; x[t] points at the panel's first column.
template <int kTokens, Order kOrder, class X>
NIBBLE_INLINE void add_tile(const Panel& panel, int64_t first, int64_t width, const X* const* x, int64_t column,
                            int64_t token, Accumulators& out) {
#pragma GCC unroll 4
  for (int part = 0; part < kParts; ++part) {  // lanes are independent, so one native vector of them at a time
    const int64_t lane = part * kNativeLanes;
    NativeF acc[kTokens][kTileRows];
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
      for (int r = 0; r < kTileRows; ++r) acc[t][r] = native_load(out.lane[token + t][first + r] + lane);
    }
    for (int64_t k = 0; k < width; k += kLanes) {
      NativeF v[kTokens];
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) v[t] = fetch_part<kOrder>(x[token + t] + column + k, part);
#pragma GCC unroll 4
      for (int r = 0; r < kTileRows; ++r) {
        const NativeF w = native_load(panel.row[first + r] + k + lane);
#pragma GCC unroll 4
        for (int t = 0; t < kTokens; ++t) acc[t][r] = native_fma(w, v[t], acc[t][r]);
      }
    }
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
      for (int r = 0; r < kTileRows; ++r) native_store(out.lane[token + t][first + r] + lane, acc[t][r]);
    }
  }
}

// Tokens outside, rows inside: a tile's activations stay in the first-level cache beside the panel.
template <Order kOrder, class X>
void add_panel(const Panel& panel, int64_t rows, int64_t width, const X* const* x, int64_t column, int64_t tokens,
               Accumulators& out) {
  int64_t t = 0;
  for (; t + kTileTokens <= tokens; t += kTileTokens) {
    for (int64_t r = 0; r < rows; r += kTileRows) add_tile<kTileTokens, kOrder>(panel, r, width, x, column, t, out);
  }
  for (int64_t r = 0; r < rows; r += kTileRows) {
    if (tokens - t == 2) add_tile<2, kOrder>(panel, r, width, x, column, t, out);
    if (tokens - t == 1) add_tile<1, kOrder>(panel, r, width, x, column, t, out);
  }
}

// The last columns, padded with zeros on both sides of the product.
template <Order kOrder, class Row, class X>
void add_rest(const ops::WeightMatrix& w, int64_t n, int64_t last, int64_t rows, int64_t column,
              const Activations<X>& x, Panel& panel, Accumulators& out) {
  X padded[kBlockTokens][kPair] = {};
  const X* padded_rows[kBlockTokens];
  const int64_t count = w.cols - column, width = (count + kLanes - 1) / kLanes * kLanes;
  for (int64_t r = 0; r < rows; ++r) {
    const Row row(w, n + r < last ? n + r : last);
    for (int64_t k = 0; k < width; k += kLanes) {
      store(panel.row[r] + k, unpack_rest<kOrder>(row, column + k, w.cols));
    }
  }
  for (int64_t t = 0; t < x.tokens; ++t) {
    for (int64_t i = 0; i < count; ++i) padded[t][i] = x.row[t][column + i];
    padded_rows[t] = padded[t];
  }
  add_panel<kOrder>(panel, rows, width, padded_rows, 0, x.tokens, out);
}

// `count` rows from n on, at most kPanelRows; their values go to out[t][at] and on.
template <Order kOrder, class Row, class X>
void panel_block(const ops::WeightMatrix& w, int64_t n, int64_t count, const Activations<X>& x, int64_t at,
                 Block& out) {
  const int64_t rows = (count + kTileRows - 1) / kTileRows * kTileRows, last = n + count - 1;
  Accumulators acc;
  for (int64_t t = 0; t < x.tokens; ++t) {
    for (int64_t r = 0; r < rows; ++r) store(acc.lane[t][r], zero());
  }
  Panel panel;
  const int64_t whole = w.cols / kPair * kPair;
  for (int64_t column = 0; column < whole; column += kPanelColumns) {
    const int64_t width = whole - column < kPanelColumns ? whole - column : kPanelColumns;
    for (int64_t r = 0; r < rows; ++r) {
      const Row row(w, n + r < last ? n + r : last);
      for (int64_t k = 0; k < width; k += kPair) {
        F16 pair[2];
        if constexpr (Row::kPaired) {
          __builtin_prefetch(static_cast<const char*>(row.bytes(column + k)) + kAhead);
        }
        unpack<kOrder>(row, column + k, pair);
        store(panel.row[r] + k, pair[0]);
        store(panel.row[r] + k + kLanes, pair[1]);
      }
    }
    add_panel<kOrder>(panel, rows, width, x.row, column, x.tokens, acc);
  }
  if (whole < w.cols) add_rest<kOrder, Row>(w, n, last, rows, whole, x, panel, acc);
  for (int64_t t = 0; t < x.tokens; ++t) {
    for (int64_t r = 0; r < count; ++r) out[t][at + r] = sum<kOrder>(load(acc.lane[t][r]));
  }
}

template <Order kOrder, class Row, class X>
NIBBLE_INLINE void streams(const ops::WeightMatrix& w, int64_t n, int64_t count, const X* const* x, int64_t tokens,
                           Block& out) {
  if (tokens == 1) return stream_block<1, kOrder, Row>(w, n, count, x, out);
  if (tokens == 2) return stream_block<2, kOrder, Row>(w, n, count, x, out);
  stream_block<3, kOrder, Row>(w, n, count, x, out);
}

template <class Row, class X>
void dots(const ops::WeightMatrix& w, int64_t n, int64_t count, const Activations<X>& x, Block& out) {
  constexpr Order kOrder = Row::kPaired && sizeof(X) == 2 ? Order::kSplit : Order::kNatural;
  if constexpr (Row::kNibbles) {
    if (x.has_nibbles) {
      const float* const rows[kStreamTokens] = {x.nibble[0], x.nibble[1], x.nibble[2]};
      return streams<Order::kNibble, Row>(w, n, count, rows, x.tokens, out);
    }
  }
  if (x.tokens <= kStreamTokens) return streams<kOrder, Row>(w, n, count, x.row, x.tokens, out);
  for (int64_t i = 0; i < count; i += kPanelRows) {
    panel_block<kOrder, Row>(w, n + i, count - i < kPanelRows ? count - i : kPanelRows, x, i, out);
  }
}

template <class X>
Dots<X> choose(fp4::WeightFormat format) {
  Dots<X> chosen = nullptr;
  with_row_type(format, [&]<class Row>() { chosen = dots<Row, X>; });
  return chosen;
}

}  // namespace

Dots<float> dots_f32(fp4::WeightFormat format) { return choose<float>(format); }
Dots<Bf16> dots_bf16(fp4::WeightFormat format) {
#ifdef NIBBLE_BF16_PAIRS
  if (format == fp4::WeightFormat::kBf16) return PairDots<Bf16Pairs>::dots;
  if (format == fp4::WeightFormat::kMxfp4) return PairDots<Mxfp4Pairs>::dots;
  if (format == fp4::WeightFormat::kNvfp4) return PairDots<Nvfp4Pairs>::dots;
#endif
  return choose<Bf16>(format);
}

}  // namespace nibble::cpu::NIBBLE_ISA
