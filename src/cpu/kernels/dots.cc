// Few activation rows meet the weights in registers, on their way from memory. For more, some weight rows by 512
// columns are widened once into a panel that stays in the first-level cache, and all activation rows pass over it.
#include "cpu/kernels/dots.h"

#include "cpu/kernels/dot_math.h"
#include "cpu/kernels/tile_dots.h"

namespace nibble::cpu::NIBBLE_ISA {
namespace {

constexpr int64_t kAhead = 2048;        // bytes: how far a stream is fetched before it is read
constexpr int64_t kPanelColumns = 512;  // of fp32 or of pairs: 16 KiB, half of the smallest first-level cache
constexpr int64_t kPanelBlock = 64;     // weight rows and activations whose sums are kept while panels pass
constexpr int64_t kCacheLine = 64;

// A row's scales, which lie apart from its codes; the row itself need not exist.
template <class Row>
NIBBLE_INLINE void fetch_scales(const Row& row, int64_t columns) {
  if constexpr (Row::kScaleGroup != 0) {
    for (int64_t i = 0; i < columns / Row::kScaleGroup; i += kCacheLine) __builtin_prefetch(row.scales + i);
  }
}

// Columns of a round: those of a cache line of codes, so that each is asked for once. With more activations AVX2 has no
// registers for that.
template <class Math, int kTokens>
consteval int64_t round_columns() {
  constexpr int64_t kLine = 8 * kCacheLine / Math::Row::kCodeBits;
  return (kTokens > 1 && kParts > 1) || kLine < Math::kColumns ? Math::kColumns : kLine;
}

// kRows weight rows with kTokens activations: as many streams from memory, `apart` rows from each other, so that none
// waits for another's misses. The values of those below `count` go to out[t][i + r * apart].
template <class Math, int kTokens, class X>
void stream(const ops::WeightMatrix& w, int64_t n, int64_t apart, int64_t count, const X* const* x, int64_t i,
            Block& out) {
  using Row = typename Math::Row;
  constexpr int kRows = Math::stream_rows(kTokens);
  const auto row = [&](int64_t r) { return Row(w, n + (r * apart < count ? r * apart : count - 1)); };
  const Row rows[4] = {row(0), row(1), row(2), row(3)};
  for (int r = 0; r < kRows; ++r) fetch_scales(Row(w, n + r * apart + 1), w.cols);
  typename Math::Sum acc[kTokens][kRows];
#pragma GCC unroll 6
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) acc[t][r] = Math::nothing();
  }
  const auto add = [&](int64_t k) __attribute__((always_inline)) {
    typename Math::Columns v[kTokens];
#pragma GCC unroll 6
    for (int t = 0; t < kTokens; ++t) v[t] = Math::columns(x[t] + k);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const typename Math::Weights weights = Math::weights(rows[r], k);
#pragma GCC unroll 6
      for (int t = 0; t < kTokens; ++t) acc[t][r] = Math::add(weights, v[t], acc[t][r]);
    }
  };
  constexpr int64_t kStep = Math::kColumns, kRound = round_columns<Math, kTokens>();
  int64_t k = 0;
  for (; k + kRound <= w.cols; k += kRound) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) __builtin_prefetch(static_cast<const char*>(rows[r].bytes(k)) + kAhead);
#pragma GCC unroll 4
    for (int64_t part = 0; part < kRound; part += kStep) add(k + part);
  }
  for (; k + kStep <= w.cols; k += kStep) add(k);
  if (k < w.cols) {
    typename Math::Columns v[kTokens];
    for (int t = 0; t < kTokens; ++t) v[t] = Math::columns_rest(x[t] + k, w.cols - k);
    for (int r = 0; r < kRows; ++r) {
      const typename Math::Weights weights = Math::weights_rest(rows[r], k, w.cols - k);
      for (int t = 0; t < kTokens; ++t) acc[t][r] = Math::add(weights, v[t], acc[t][r]);
    }
  }
#pragma GCC unroll 6
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      if (r * apart < count) out[t][i + r * apart] = Math::total(acc[t][r]) * w.tensor_scale;
    }
  }
}

// Calls f<count>() for a count of 1 .. kMost.
template <int kMost, class F>
NIBBLE_INLINE void with_count(int64_t count, const F& f) {
  if constexpr (kMost > 1) {
    if (count < kMost) return with_count<kMost - 1>(count, f);
  }
  f.template operator()<kMost>();
}

template <class Math, class X>
void streams(const ops::WeightMatrix& w, int64_t n, int64_t count, const X* const* x, int64_t tokens, Block& out) {
  with_count<Math::kStreamTokens>(tokens, [&]<int kTokens>() {
    constexpr int kRows = Math::stream_rows(kTokens);
    const int64_t apart = (count + kRows - 1) / kRows;
    for (int64_t i = 0; i < apart; ++i) stream<Math, kTokens>(w, n + i, apart, count - i, x, i, out);
  });
}

template <class Tile, int64_t kScaled = Tile::kScaled>
struct Panel {
  alignas(kCacheLine) typename Tile::Element row[Tile::kPanelRows][kPanelColumns];
  alignas(kCacheLine) float scales[Tile::kPanelRows][kPanelColumns / kScaled][kLanes];
};
template <class Tile>
struct Panel<Tile, 0> {
  alignas(kCacheLine) typename Tile::Element row[Tile::kPanelRows][kPanelColumns];
};
// Of one panel's rows.
template <class Tile>
struct Sums {
  alignas(kCacheLine) float lane[kPanelBlock][Tile::kPanelRows][kLanes];
};

// Adds the products of `width` columns, four rows from `first` on by kTokens activations; x[t] + column is theirs.
// `kFresh`: to nothing, whatever `out` has.
template <class Tile, int kTokens, bool kFresh>
NIBBLE_INLINE void add_tile(const Panel<Tile>& panel, int64_t first, int64_t width, const typename Tile::X* const* x,
                            int64_t column, float (*out)[Tile::kPanelRows][kLanes]) {
#pragma GCC unroll 4
  for (int part = 0; part < Tile::kStepParts; ++part) {
    const int64_t lane = part * kNativeLanes;
    NativeF acc[kTokens][Tile::kRows];
#pragma GCC unroll 6
    for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
      for (int r = 0; r < Tile::kRows; ++r) {
        acc[t][r] = kFresh ? native_broadcast(0.0f) : native_load(out[t][first + r] + lane);
      }
    }
    const auto add = [&](int64_t k, NativeF(&to)[kTokens][Tile::kRows]) __attribute__((always_inline)) {
      decltype(Tile::part_columns(x[0], part)) v[kTokens];
#pragma GCC unroll 6
      for (int t = 0; t < kTokens; ++t) v[t] = Tile::part_columns(x[t] + column + k, part);
#pragma GCC unroll 4
      for (int r = 0; r < Tile::kRows; ++r) {
        auto weights = Tile::part_weights(panel.row[first + r] + k, part);
        keep(weights);
#pragma GCC unroll 6
        for (int t = 0; t < kTokens; ++t) to[t][r] = Tile::part_add(weights, v[t], to[t][r]);
      }
    };
    if constexpr (Tile::kScaled == 0) {
      for (int64_t k = 0; k < width; k += Tile::kStep) add(k, acc);
    } else {
      for (int64_t k = 0; k < width; k += Tile::kScaled) {
        NativeF products[kTokens][Tile::kRows] = {};
#pragma GCC unroll 4
        for (int64_t step = 0; step < Tile::kScaled; step += Tile::kStep) add(k + step, products);
#pragma GCC unroll 4
        for (int r = 0; r < Tile::kRows; ++r) {
          const NativeF scale = native_load(panel.scales[first + r][k / Tile::kScaled]);
#pragma GCC unroll 6
          for (int t = 0; t < kTokens; ++t) acc[t][r] = native_fma(products[t][r], scale, acc[t][r]);
        }
      }
    }
#pragma GCC unroll 6
    for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
      for (int r = 0; r < Tile::kRows; ++r) native_store(out[t][first + r] + lane, acc[t][r]);
    }
  }
}

// Tokens outside, rows inside: a tile's activations stay in the first-level cache beside the panel. What is left at
// the end is cut into two tiles of nearly the same size.
template <class Tile, bool kFresh>
void add_panel(const Panel<Tile>& panel, int64_t width, const typename Tile::X* const* x, int64_t column,
               int64_t tokens, Sums<Tile>& out) {
  for (int64_t t = 0; t < tokens;) {
    const int64_t left = tokens - t;
    const int64_t count = left >= 2 * Tile::kTokens ? Tile::kTokens : left > Tile::kTokens ? (left + 1) / 2 : left;
    with_count<Tile::kTokens>(count, [&]<int kTokens>() {
      for (int64_t r = 0; r < Tile::kPanelRows; r += Tile::kRows) {
        add_tile<Tile, kTokens, kFresh>(panel, r, width, x + t, column, out.lane + t);
      }
    });
    t += count;
  }
}

// A block of weight rows, a panel of them at a time. Columns are the outermost loop: those of all activations stay in
// the second-level cache while the panels pass.
template <class Math>
struct Panels {
  using Row = typename Math::Row;
  using Tile = typename Math::Tile;
  using TileX = typename Tile::X;
  static constexpr int64_t kRows = Tile::kPanelRows;

  // Widens `width` columns of the rows from n on, none past `last`, and asks for what comes after them.
  NIBBLE_INLINE static void widen(const ops::WeightMatrix& w, int64_t n, int64_t last, int64_t column, int64_t width,
                                  int64_t next_n, int64_t next_column, Panel<Tile>& panel) {
    for (int64_t r = 0; r < kRows; ++r) {
      const Row row(w, n + r < last ? n + r : last), next(w, next_n + r);
      if (next_column == 0) fetch_scales(next, w.cols);
      for (int64_t k = 0; k < width; k += Math::kColumns) {
        __builtin_prefetch(next.bytes(next_column + k));
        Math::put(Math::weights(row, column + k), panel, r, k);
      }
    }
  }

  // Activations as tiles read them: where they are, or widened here, kPanelColumns of each.
  struct Widened {
    alignas(kCacheLine) TileX row[Math::kWidens ? kPanelBlock : 1][kPanelColumns];
    const TileX* at[kPanelBlock];
  };
  // at[t] + column - from is column `column` of row t, for `width` of them.
  template <class X>
  NIBBLE_INLINE static int64_t take(const X* const* x, int64_t tokens, int64_t column, int64_t width, Widened& to) {
    if constexpr (Math::kWidens) {
      for (int64_t t = 0; t < tokens; ++t) {
        Math::widen(x[t] + column, width, to.row[t]);
        to.at[t] = to.row[t];
      }
      return column;
    } else {
      for (int64_t t = 0; t < tokens; ++t) to.at[t] = x[t];
      return 0;
    }
  }

  // The products of a panel's `width` columns; `is_first`, of its first ones, have nothing to be added to.
  static void add_columns(const Panel<Tile>& panel, bool is_first, int64_t width, const TileX* const* x, int64_t column,
                          int64_t tokens, Sums<Tile>& to) {
    if (is_first)
      add_panel<Tile, true>(panel, width, x, column, tokens, to);
    else
      add_panel<Tile, false>(panel, width, x, column, tokens, to);
  }

  // Rows and activations at most kPanelBlock; the value of row i and activation t goes to out[t * stride + i].
  template <class X>
  static void block(const ops::WeightMatrix& w, int64_t n, int64_t count, const X* const* x, int64_t tokens, float* out,
                    int64_t stride) {
    constexpr int64_t kPanels = kPanelBlock / kRows;
    const int64_t last = n + count - 1, panels = (count + kRows - 1) / kRows,
                  whole = w.cols / Math::kColumns * Math::kColumns;
    constexpr int64_t kAtOnce = kLanes / kRows;  // tokens whose sums are added up together
    Sums<Tile> sums[kPanels];
    if (tokens % kAtOnce != 0) {
      for (int64_t p = 0; p < panels; ++p) __builtin_memset(sums[p].lane[tokens], 0, sizeof(sums[p].lane[0]));
    }
    Widened widened;
    Panel<Tile> panel;
    for (int64_t column = 0; column < whole; column += kPanelColumns) {
      const int64_t width = whole - column < kPanelColumns ? whole - column : kPanelColumns;
      const int64_t from = take(x, tokens, column, width, widened);
      for (int64_t p = 0; p < panels; ++p) {
        // What is read next: the rows below, at the block's end its first ones further on, then the rows below it.
        const bool is_last = p + 1 == panels, is_end = column + width >= whole;
        const int64_t next_n = is_last && !is_end ? n : n + (p + 1) * kRows;
        const int64_t next_column = !is_last ? column : is_end ? 0 : column + width;
        widen(w, n + p * kRows, last, column, width, next_n, next_column, panel);
        add_columns(panel, column == 0, width, widened.at, column - from, tokens, sums[p]);
      }
    }
    if (whole < w.cols) add_rest(w, n, last, panels, whole, x, tokens, widened, panel, sums);
    for (int64_t p = 0; p < panels; ++p) {
      for (int64_t t = 0; t < tokens; t += kAtOnce) {
        float totals[kLanes];
        Tile::totals(sums[p].lane[t][0], totals);
        store(totals, load(totals) * broadcast(w.tensor_scale));
        for (int64_t i = 0; i < kAtOnce && t + i < tokens; ++i) {
          __builtin_memcpy(out + (t + i) * stride + p * kRows, totals + i * kRows, kRows * sizeof(float));
        }
      }
    }
  }

  template <class X>
  static void add_rest(const ops::WeightMatrix& w, int64_t n, int64_t last, int64_t panels, int64_t column,
                       const X* const* x, int64_t tokens, Widened& widened, Panel<Tile>& panel, Sums<Tile>* sums) {
    const int64_t count = w.cols - column;
    X padded[kPanelBlock][Math::kColumns] = {};
    const X* rows[kPanelBlock];
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t i = 0; i < count; ++i) padded[t][i] = x[t][column + i];
      rows[t] = padded[t];
    }
    take(rows, tokens, 0, Math::kColumns, widened);
    for (int64_t p = 0; p < panels; ++p) {
      for (int64_t r = 0; r < kRows; ++r) {
        const int64_t at = n + p * kRows + r;
        Math::put(Math::weights_rest(Row(w, at < last ? at : last), column, count), panel, r, 0);
      }
      add_columns(panel, column == 0, Math::kColumns, widened.at, 0, tokens, sums[p]);
    }
  }
};

template <class Math, class X>
void panels(const ops::WeightMatrix& w, int64_t n, int64_t count, const Activations<X>& x, Block& out) {
  for (int64_t t = 0; t < x.tokens; t += kPanelBlock) {
    for (int64_t i = 0; i < count; i += kPanelBlock) {
      const int64_t rows = count - i < kPanelBlock ? count - i : kPanelBlock;
      const int64_t tokens = x.tokens - t < kPanelBlock ? x.tokens - t : kPanelBlock;
      Panels<Math>::block(w, n + i, rows, x.row + t, tokens, out[t] + i, out.stride);
    }
  }
}

template <class Math, class X>
NIBBLE_INLINE void dots_with(const ops::WeightMatrix& w, int64_t n, int64_t count, const Activations<X>& x,
                             Block& out) {
  if (x.tokens <= Math::kStreamTokens)
    streams<Math>(w, n, count, x.row, x.tokens, out);
  else
    panels<Math>(w, n, count, x, out);
}

// Few activations are put into the order of nibbles, a tail padded with zeros.
template <class Row, class X>
void prepare(Activations<X>& x, int64_t cols) {
  x.is_prepared = false;
  if constexpr (Row::kNibbles) {
    const int64_t whole = (cols + kLanes - 1) / kLanes * kLanes;
    x.is_prepared = x.tokens <= kNibbleTokens && x.tokens * whole <= kPreparedFloats;
    for (int64_t t = 0; x.is_prepared && t < x.tokens; ++t) {
      for_lanes(cols, [&](int64_t k, int64_t count) {
        store(x.prepared + t * whole + k, from_natural<Order::kNibble>(load_n(x.row[t] + k, count)));
      });
    }
  }
}

template <class Row, class X>
void dots(const ops::WeightMatrix& w, int64_t n, int64_t count, const Activations<X>& x, Block& out) {
  if constexpr (Row::kNibbles) {
    if (x.is_prepared) {
      const int64_t whole = (w.cols + kLanes - 1) / kLanes * kLanes;
      const float* rows[kNibbleTokens];
      for (int64_t t = 0; t < x.tokens; ++t) rows[t] = x.prepared + t * whole;
      return streams<FloatMath<Row, float, Order::kNibble>>(w, n, count, rows, x.tokens, out);
    }
    if constexpr (kWidensFirst) {
      using Math = FloatMath<Row, X, Order::kNibble>;
      if (x.tokens > Math::kStreamTokens) return panels<Math>(w, n, count, x, out);
    }
  }
  dots_with<FloatMath<Row, X, Row::kPaired && sizeof(X) == 2 ? Order::kSplit : Order::kNatural>>(w, n, count, x, out);
}

template <class X>
Dots<X> choose(fp4::WeightFormat format) {
  Dots<X> chosen = {};
  with_row_type(format, [&]<class Row>() { chosen = {prepare<Row, X>, dots<Row, X>}; });
  return chosen;
}

#ifdef NIBBLE_BF16_PAIRS
#ifdef NIBBLE_TILES
template <class Row>
constexpr Dots<Bf16> kTileDots = {prepare_tiles<Row>, tile_dots<Row>};
constexpr Dots<Bf16> kBf16Dots = kTileDots<Bf16Pairs>, kMxfp4Dots = kTileDots<Mxfp4Pairs>,
                     kNvfp4Dots = kTileDots<Nvfp4Pairs>;
#else
void leave(Activations<Bf16>&, int64_t) {}
constexpr Dots<Bf16> kBf16Dots = {leave, dots_with<PairMath, Bf16>};

// Few activations are put into the order of the codes, a tail padded with zeros.
template <class Math>
void prepare_scaled(Activations<Bf16>& x, int64_t cols) {
  const int64_t whole = cols / Math::kColumns * Math::kColumns, padded = whole + (whole < cols ? Math::kColumns : 0);
  x.is_prepared = x.tokens <= Math::kStreamTokens && x.tokens * padded <= 2 * kPreparedFloats;
  if (!x.is_prepared) return;
  auto* out = reinterpret_cast<Bf16*>(x.prepared);
  for (int64_t t = 0; t < x.tokens; ++t, out += padded) {
    Math::widen(x.row[t], whole, out);
    if (whole < cols) Math::widen_rest(x.row[t] + whole, cols - whole, out + whole);
    x.row[t] = out;
  }
}
template <class Math>
void scaled_dots(const ops::WeightMatrix& w, int64_t n, int64_t count, const Activations<Bf16>& x, Block& out) {
  if (x.is_prepared)
    streams<Math>(w, n, count, x.row, x.tokens, out);
  else
    panels<Math>(w, n, count, x, out);
}
template <class Row>
constexpr Dots<Bf16> kScaledDots = {prepare_scaled<ScaledPairMath<Row>>, scaled_dots<ScaledPairMath<Row>>};
constexpr Dots<Bf16> kMxfp4Dots = kScaledDots<ScaledRow<fp4::Mxfp4>>, kNvfp4Dots = kScaledDots<ScaledRow<fp4::Nvfp4>>;
#endif
#endif

}  // namespace

Dots<float> dots_f32(fp4::WeightFormat format) { return choose<float>(format); }
Dots<Bf16> dots_bf16(fp4::WeightFormat format) {
#ifdef NIBBLE_BF16_PAIRS
  if (format == fp4::WeightFormat::kBf16) return kBf16Dots;
  if (format == fp4::WeightFormat::kMxfp4) return kMxfp4Dots;
  if (format == fp4::WeightFormat::kNvfp4) return kNvfp4Dots;
#endif
  return choose<Bf16>(format);
}

}  // namespace nibble::cpu::NIBBLE_ISA
