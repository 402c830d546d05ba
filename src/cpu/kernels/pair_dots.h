// The dots of dots.h for bf16 activations where the set multiplies pairs of bf16: the same two ways, thirty-two columns
// a step. Lane i takes columns 32 j + 2 i and 32 j + 2 i + 1 in ascending j, then `sum`.
#pragma once

#include "cpu/kernels/dots.h"
#include "cpu/kernels/pair_rows.h"

#ifdef NIBBLE_BF16_PAIRS
namespace nibble::cpu::NIBBLE_ISA {

template <class Row>
struct PairDots {
  static constexpr int kRows = 4, kTokens = 6;  // 24 accumulators, six activations and a weight, of 32 registers
  static constexpr int64_t kPanelRows = 16, kPanelColumns = 512, kAhead = 1024;

  struct Panel {
    alignas(64) uint16_t row[kPanelRows][kPanelColumns];
  };
  struct Accumulators {
    alignas(64) float lane[kBlockTokens][kPanelRows][kLanes];
  };
  // The last columns of each activation, zeros after them.
  struct Rest {
    alignas(64) uint16_t row[kBlockTokens][kPairColumns];
  };

  NIBBLE_INLINE static const uint16_t* bits(const Bf16* p) { return reinterpret_cast<const uint16_t*>(p); }

  NIBBLE_INLINE static void take_rest(const Activations<Bf16>& x, int64_t column, int64_t count, Rest& rest) {
    for (int64_t t = 0; t < x.tokens; ++t) {
      for (int64_t i = 0; i < kPairColumns; ++i) rest.row[t][i] = i < count ? x.row[t][column + i].bits : uint16_t{0};
    }
  }

  template <int kCount>
  static void stream(const ops::WeightMatrix& w, int64_t n, int64_t count, const Activations<Bf16>& x, Block& out) {
    const int64_t each = (count + kRows - 1) / kRows, whole = w.cols / kPairColumns * kPairColumns;
    Rest rest;
    if (whole < w.cols) take_rest(x, whole, w.cols - whole, rest);
    for (int64_t i = 0; i < each; ++i) {
      const auto row = [&](int64_t r) { return Row(w, n + (i + r * each < count ? i + r * each : count - 1)); };
      const Row rows[kRows] = {row(0), row(1), row(2), row(3)};
      NativeF acc[kCount][kRows];
#pragma GCC unroll 4
      for (int t = 0; t < kCount; ++t) {
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) acc[t][r] = native_broadcast(0.0f);
      }
      for (int64_t k = 0; k < whole; k += kPairColumns) {
        NativePairs v[kCount];
#pragma GCC unroll 4
        for (int t = 0; t < kCount; ++t) v[t] = native_load_pairs(bits(x.row[t] + k));
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          __builtin_prefetch(static_cast<const char*>(rows[r].bytes(k)) + kAhead);
          const NativePairs weight = rows[r].at(k);
#pragma GCC unroll 4
          for (int t = 0; t < kCount; ++t) acc[t][r] = native_dot_pairs(weight, v[t], acc[t][r]);
        }
      }
      if (whole < w.cols) {
        for (int r = 0; r < kRows; ++r) {
          const NativePairs weight = rows[r].rest(whole, w.cols - whole);
          for (int t = 0; t < kCount; ++t) {
            acc[t][r] = native_dot_pairs(weight, native_load_pairs(rest.row[t]), acc[t][r]);
          }
        }
      }
      for (int t = 0; t < kCount; ++t) {
        for (int r = 0; r < kRows && i + r * each < count; ++r) {
          out[t][i + r * each] = native_sum(acc[t][r]) * rows[r].factor;
        }
      }
    }
  }

  template <int kCount>
  NIBBLE_INLINE static void add_tile(const Panel& panel, int64_t first, int64_t width, const uint16_t* const* x,
                                     int64_t token, Accumulators& out) {
    NativeF acc[kCount][kRows];
#pragma GCC unroll 6
    for (int t = 0; t < kCount; ++t) {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) acc[t][r] = native_load(out.lane[token + t][first + r]);
    }
    for (int64_t k = 0; k < width; k += kPairColumns) {
      NativePairs v[kCount];
#pragma GCC unroll 6
      for (int t = 0; t < kCount; ++t) v[t] = native_load_pairs(x[token + t] + k);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const NativePairs weight = native_load_pairs(panel.row[first + r] + k);
#pragma GCC unroll 6
        for (int t = 0; t < kCount; ++t) acc[t][r] = native_dot_pairs(weight, v[t], acc[t][r]);
      }
    }
#pragma GCC unroll 6
    for (int t = 0; t < kCount; ++t) {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) native_store(out.lane[token + t][first + r], acc[t][r]);
    }
  }

  static void add_panel(const Panel& panel, int64_t rows, int64_t width, const uint16_t* const* x, int64_t tokens,
                        Accumulators& out) {
    int64_t t = 0;
    for (; t + kTokens <= tokens; t += kTokens) {
      for (int64_t r = 0; r < rows; r += kRows) add_tile<kTokens>(panel, r, width, x, t, out);
    }
    for (; t + 3 <= tokens; t += 3) {
      for (int64_t r = 0; r < rows; r += kRows) add_tile<3>(panel, r, width, x, t, out);
    }
    for (int64_t r = 0; r < rows; r += kRows) {
      if (tokens - t == 2) add_tile<2>(panel, r, width, x, t, out);
      if (tokens - t == 1) add_tile<1>(panel, r, width, x, t, out);
    }
  }

  static void panel(const ops::WeightMatrix& w, int64_t n, int64_t count, const Activations<Bf16>& x, int64_t at,
                    Block& out) {
    const int64_t rows = (count + kRows - 1) / kRows * kRows, last = n + count - 1;
    const auto row = [&](int64_t r) { return Row(w, n + r < last ? n + r : last); };
    Accumulators acc;
    for (int64_t t = 0; t < x.tokens; ++t) {
      for (int64_t r = 0; r < rows; ++r) native_store(acc.lane[t][r], native_broadcast(0.0f));
    }
    Panel weights;
    const uint16_t* columns[kBlockTokens];
    const int64_t whole = w.cols / kPairColumns * kPairColumns;
    for (int64_t column = 0; column < whole; column += kPanelColumns) {
      const int64_t width = whole - column < kPanelColumns ? whole - column : kPanelColumns;
      for (int64_t r = 0; r < rows; ++r) {
        const Row from = row(r);
        for (int64_t k = 0; k < width; k += kPairColumns) native_store_pairs(weights.row[r] + k, from.at(column + k));
      }
      for (int64_t t = 0; t < x.tokens; ++t) columns[t] = bits(x.row[t] + column);
      add_panel(weights, rows, width, columns, x.tokens, acc);
    }
    if (whole < w.cols) {
      Rest rest;
      take_rest(x, whole, w.cols - whole, rest);
      for (int64_t r = 0; r < rows; ++r) native_store_pairs(weights.row[r], row(r).rest(whole, w.cols - whole));
      for (int64_t t = 0; t < x.tokens; ++t) columns[t] = rest.row[t];
      add_panel(weights, rows, kPairColumns, columns, x.tokens, acc);
    }
    for (int64_t t = 0; t < x.tokens; ++t) {
      for (int64_t r = 0; r < count; ++r) out[t][at + r] = native_sum(native_load(acc.lane[t][r])) * row(r).factor;
    }
  }

  static void dots(const ops::WeightMatrix& w, int64_t n, int64_t count, const Activations<Bf16>& x, Block& out) {
    if (x.tokens == 1) return stream<1>(w, n, count, x, out);
    if (x.tokens == 2) return stream<2>(w, n, count, x, out);
    if (x.tokens == 3) return stream<3>(w, n, count, x, out);
    for (int64_t i = 0; i < count; i += kPanelRows) {
      panel(w, n + i, count - i < kPanelRows ? count - i : kPanelRows, x, i, out);
    }
  }
};

}  // namespace nibble::cpu::NIBBLE_ISA
#endif
