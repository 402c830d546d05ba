// For one activation row, weights are widened in registers; for several, four weight rows are widened once into a panel
// that stays in the first-level cache, and the whole block of activations passes over it.
#include "cpu/kernels/dots.h"

#include "cpu/kernels/weights.h"

namespace nibble::cpu::NIBBLE_ISA {
namespace {

constexpr int kTileRows = 4;  // 4 x 3 accumulators, three activations and a weight: AVX2's sixteen registers
constexpr int kTileTokens = 3;
constexpr int64_t kPanelColumns = 512;  // a panel of 8 KiB, a quarter of the first-level cache

NIBBLE_INLINE NativeF load_part(const float* p) { return native_load(p); }
NIBBLE_INLINE NativeF load_part(const Bf16* p) { return native_load_bf16(reinterpret_cast<const uint16_t*>(p)); }

struct Accumulators {
  float lane[kBlockTokens][kTileRows][kLanes];
};
struct Panel {
  float row[kTileRows][kPanelColumns];
};

// Adds the products of `width` columns to the accumulators of kTokens rows; x[t] points at the panel's first column.
template <int kTokens, class X>
void add_tile(const Panel& panel, int64_t width, const X* const* x, int64_t column, int64_t token, Accumulators& out) {
  for (int part = 0; part < kParts; ++part) {  // lanes are independent, so one native vector of them at a time
    const int64_t lane = part * kNativeLanes;
    NativeF acc[kTokens][kTileRows];
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
      for (int r = 0; r < kTileRows; ++r) acc[t][r] = native_load(out.lane[token + t][r] + lane);
    }
    for (int64_t k = lane; k < width; k += kLanes) {
      NativeF v[kTokens];
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) v[t] = load_part(x[token + t] + column + k);
#pragma GCC unroll 4
      for (int r = 0; r < kTileRows; ++r) {
        const NativeF w = native_load(panel.row[r] + k);
#pragma GCC unroll 4
        for (int t = 0; t < kTokens; ++t) acc[t][r] = native_fma(w, v[t], acc[t][r]);
      }
    }
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
      for (int r = 0; r < kTileRows; ++r) native_store(out.lane[token + t][r] + lane, acc[t][r]);
    }
  }
}

template <class X>
void add_panel(const Panel& panel, int64_t width, const X* const* x, int64_t column, int64_t tokens,
               Accumulators& out) {
  int64_t t = 0;
  for (; t + kTileTokens <= tokens; t += kTileTokens) add_tile<kTileTokens>(panel, width, x, column, t, out);
  if (tokens - t == 2) add_tile<2>(panel, width, x, column, t, out);
  if (tokens - t == 1) add_tile<1>(panel, width, x, column, t, out);
}

// The last count < 16 columns, padded with zeros on both sides of the product.
template <class Row, class X>
void add_tail(const Row* rows, int64_t column, int64_t count, const X* const* x, int64_t tokens, Panel& panel,
              Accumulators& out) {
  for (int r = 0; r < kTileRows; ++r) store(panel.row[r], rows[r].tail(column, count));
  X padded[kBlockTokens][kLanes] = {};
  const X* padded_rows[kBlockTokens];
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t i = 0; i < count; ++i) padded[t][i] = x[t][column + i];
    padded_rows[t] = padded[t];
  }
  add_panel(panel, kLanes, padded_rows, 0, tokens, out);
}

template <class Row, class X>
void dots_of_many(const Row* rows, int64_t cols, const X* const* x, int64_t tokens, float (*out)[kBlockRows]) {
  Accumulators acc;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int r = 0; r < kTileRows; ++r) store(acc.lane[t][r], zero());
  }
  Panel panel;
  const int64_t whole = cols / kLanes * kLanes;
  for (int64_t column = 0; column < whole; column += kPanelColumns) {
    const int64_t width = whole - column < kPanelColumns ? whole - column : kPanelColumns;
    for (int r = 0; r < kTileRows; ++r) {
      for (int64_t k = 0; k < width; k += kLanes) store(panel.row[r] + k, rows[r].at(column + k));
    }
    add_panel(panel, width, x, column, tokens, acc);
  }
  if constexpr (Row::kHasTail) {
    if (whole < cols) add_tail(rows, whole, cols - whole, x, tokens, panel, acc);
  }
  for (int64_t t = 0; t < tokens; ++t) {
    for (int r = 0; r < kTileRows; ++r) out[t][r] = sum(load(acc.lane[t][r]));
  }
}

// Four rows at once: four streams from memory, and sums that do not wait for each other.
template <class Row, class X>
void dots_of_one(const Row* rows, int64_t cols, const X* x, float* out) {
  F16 acc[kTileRows] = {zero(), zero(), zero(), zero()};
  const int64_t whole = cols / kLanes * kLanes;
  for (int64_t k = 0; k < whole; k += kLanes) {
    const F16 v = load(x + k);
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r) acc[r] = fma(rows[r].at(k), v, acc[r]);
  }
  if constexpr (Row::kHasTail) {
    if (whole < cols) {
      const F16 v = load_head(x + whole, cols - whole);
      for (int r = 0; r < kTileRows; ++r) acc[r] = fma(rows[r].tail(whole, cols - whole), v, acc[r]);
    }
  }
  for (int r = 0; r < kTileRows; ++r) out[r] = sum(acc[r]);
}

template <class Row, class X>
void dots(const ops::WeightMatrix& w, int64_t n, int64_t count, const X* const* x, int64_t tokens, Block& out) {
  const int64_t last = n + count - 1;
  for (int64_t i = 0; i < count; i += kTileRows) {
    const auto weight_row = [&](int64_t r) { return Row(w, n + i + r < last ? n + i + r : last); };
    const Row rows[kTileRows] = {weight_row(0), weight_row(1), weight_row(2), weight_row(3)};
    if (tokens == 1)
      dots_of_one(rows, w.cols, x[0], out[0] + i);
    else
      dots_of_many(rows, w.cols, x, tokens, reinterpret_cast<float(*)[kBlockRows]>(out[0] + i));
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
Dots<Bf16> dots_bf16(fp4::WeightFormat format) { return choose<Bf16>(format); }

}  // namespace nibble::cpu::NIBBLE_ISA
