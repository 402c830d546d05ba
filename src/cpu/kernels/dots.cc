// Few activation rows meet the weights in registers, on their way from memory. For more, some weight rows by 512
// columns are widened once into a panel that stays in the first-level cache, and all activation rows pass over it.
#include "cpu/kernels/dots.h"

#include "cpu/kernels/dot_math.h"
#include "cpu/kernels/tile_dots.h"

namespace nibble::cpu::NIBBLE_ISA {
namespace {

constexpr int64_t kAhead = 2048;  // bytes: how far a stream is fetched before it is read
constexpr int64_t kCacheLine = 64;

// What rows of `cols` columns are padded to.
template <class Math>
NIBBLE_INLINE int64_t padded(int64_t cols) {
  return (cols + Math::kColumns - 1) / Math::kColumns * Math::kColumns;
}

// Activations as streams read them, one row after another. An odd number of cache lines apart, for rows whose like
// columns fall together in a cache push each other out.
template <class Math>
struct Prepared {
  using X = typename Math::X;
  NIBBLE_INLINE Prepared(std::byte* memory, int64_t cols)
      : at(reinterpret_cast<X*>(memory)), columns(padded<Math>(cols)) {
    constexpr int64_t kLine = kCacheLine / static_cast<int64_t>(sizeof(X));
    stride = (columns + kLine - 1) / kLine * kLine;
    if (stride / kLine % 2 == 0) stride += kLine;
  }
  NIBBLE_INLINE X* operator[](int64_t token) const { return at + token * stride; }

  X* const at;
  const int64_t columns;  // multiple of Math::kColumns, zeros after the last one
  int64_t stride;
};

// A row's scales, which lie apart from its codes; the row itself need not exist.
template <class Row>
NIBBLE_INLINE void fetch_scales(const Row& row, int64_t columns) {
  if constexpr (Row::kScaleGroup != 0) {
    for (int64_t i = 0; i < columns / Row::kScaleGroup; i += kCacheLine) __builtin_prefetch(row.scales + i);
  }
}

// Columns of a round: those of a cache line of codes at least, so that each is asked for once. With more activations
// AVX2 has no registers for that.
template <class Math, int kTokens>
consteval int64_t round_columns() {
  constexpr int64_t kLine = 8 * kCacheLine / Math::Row::kCodeBits;
  return (kTokens > 1 && kParts > 1) || kLine < Math::kColumns ? Math::kColumns : kLine;
}

// kRows weight rows with kTokens activations: as many streams from memory, `apart` rows from each other, so that none
// waits for another's misses. The values of those below `count` go to out[t][i + r * apart].
template <class Math, int kTokens>
void stream(const ops::WeightMatrix& w, int64_t n, int64_t apart, int64_t count, const Prepared<Math>& x, int64_t i,
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
  // `kLines` more of each row's cache lines are asked for.
  const auto add = [&]<int64_t kLines>(int64_t k, const auto& weights_of) __attribute__((always_inline)) {
    constexpr int kGroup = Math::rows_together(kTokens);
#pragma GCC unroll 4
    for (int first = 0; first < kRows; first += kGroup) {
      typename Math::Weights weights[kGroup];
      typename Math::Sum products[kTokens][kGroup];
#pragma GCC unroll 4
      for (int r = 0; r < kGroup; ++r) {
        weights[r] = weights_of(rows[first + r]);
#pragma GCC unroll 6
        for (int t = 0; t < kTokens; ++t) products[t][r] = Math::begin(acc[t][first + r]);
      }
#pragma GCC unroll 8
      for (int step = 0; step < Math::kSteps; ++step) {
        if (step == Math::steps(weights[0])) break;
        // Evenly, and by turns: in bursts they wait for each other. The compiler moves none past the step.
        asm volatile("");
        constexpr int64_t kAsked = kLines * kGroup;
#pragma GCC unroll 8
        for (int64_t a = step * kAsked / Math::kSteps; a < (step + 1) * kAsked / Math::kSteps; ++a) {
          const int64_t line = (first * kLines + a) / kRows, of = (first * kLines + a) % kRows;
          __builtin_prefetch(static_cast<const char*>(rows[of].bytes(k)) + kAhead + line * kCacheLine);
        }
#pragma GCC unroll 4
        for (int r = 0; r < kGroup; ++r) {
          const auto part = Math::part(weights[r], step);
#pragma GCC unroll 6
          for (int t = 0; t < kTokens; ++t) products[t][r] = Math::add(part, x[t] + k, step, products[t][r]);
        }
      }
#pragma GCC unroll 4
      for (int r = 0; r < kGroup; ++r) {
#pragma GCC unroll 6
        for (int t = 0; t < kTokens; ++t) {
          acc[t][first + r] = Math::finish(products[t][r], weights[r], acc[t][first + r]);
        }
      }
    }
  };
  const auto add_whole = [&]<int64_t kLines>(int64_t k) __attribute__((always_inline)) {
    add.template operator()<kLines>(
        k, [k](const Row& of) __attribute__((always_inline)) { return Math::weights(of, k); });
  };
  constexpr int64_t kStep = Math::kColumns, kRound = round_columns<Math, kTokens>();
  constexpr int64_t kStepBytes = kStep * Row::kCodeBits / 8;
  int64_t k = 0;
  for (; k + kRound <= w.cols; k += kRound) {
    add_whole.template operator()<(kStepBytes + kCacheLine - 1) / kCacheLine>(k);
#pragma GCC unroll 4
    for (int64_t part = kStep; part < kRound; part += kStep) add_whole.template operator()<0>(k + part);
  }
  for (; k + kStep <= w.cols; k += kStep) add_whole.template operator()<0>(k);
  if (k < w.cols) add.template operator()<0>(k, [&](const Row& of) { return Math::weights_rest(of, k, w.cols - k); });
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

template <class Math>
void streams(const ops::WeightMatrix& w, int64_t n, int64_t count, const Prepared<Math>& x, int64_t tokens,
             Block& out) {
  with_count<Math::kStreamTokens>(tokens, [&]<int kTokens>() {
    constexpr int kRows = Math::stream_rows(kTokens);
    const int64_t apart = (count + kRows - 1) / kRows;
    for (int64_t i = 0; i < apart; ++i) stream<Math, kTokens>(w, n + i, apart, count - i, x, i, out);
  });
}

template <class Tile>
struct Panel {
  alignas(kCacheLine) typename Tile::Element row[Tile::kPanelRows][kPanelColumns];
  typename Tile::Scales scales[Tile::kPanelRows];
};
// Of one panel's rows.
template <class Tile>
struct Sums {
  alignas(kCacheLine) float lane[Tile::kBlockTokens][Tile::kPanelRows][kLanes];
};

// Where in a tile of `count` activations kStep columns of the i-th are, from column k of its panel on.
template <class Tile>
NIBBLE_INLINE int64_t in_tile(int64_t k, int64_t i, int64_t count) {
  return k * count + i * Tile::kStep;
}

// Activations as tiles read them, in the very order: for each panel's columns one tile after another, in a tile kStep
// columns of each of its activations by turns. So they come as one run, which a processor fetches ahead by itself; rows
// apart it has to be asked for, and multiplies more slowly meanwhile.
template <class Math>
struct Packed {
  using X = typename Math::X;
  NIBBLE_INLINE Packed(std::byte* memory, int64_t cols, int64_t count)
      : at(reinterpret_cast<X*>(memory)), columns(padded<Math>(cols)), tokens(count) {}
  // Of the panel whose columns begin with `column`, a multiple of kPanelColumns.
  NIBBLE_INLINE int64_t width(int64_t column) const {
    return columns - column < kPanelColumns ? columns - column : kPanelColumns;
  }
  // That panel's columns of the tile that begins with a token.
  NIBBLE_INLINE X* tile(int64_t column, int64_t token) const { return at + column * tokens + token * width(column); }

  X* const at;
  const int64_t columns, tokens;
};

// f<count>(token) for the tiles of some tokens. What is left at the end is cut into two of nearly the same size.
template <class Tile, class F>
NIBBLE_INLINE void for_tiles(int64_t tokens, const F& f) {
  for (int64_t t = 0; t < tokens;) {
    const int64_t left = tokens - t;
    const int64_t count = left >= 2 * Tile::kTokens ? Tile::kTokens : left > Tile::kTokens ? (left + 1) / 2 : left;
    with_count<Tile::kTokens>(count, [&]<int kTokens>() { f.template operator()<kTokens>(t); });
    t += count;
  }
}

// Adds the products of `width` columns, four rows from `first` on by kTokens activations, a tile of Packed.
// `kFresh`: to nothing, whatever `out` has.
template <class Tile, int kTokens, bool kFresh>
NIBBLE_INLINE void add_tile(const Panel<Tile>& panel, int64_t first, int64_t width, const typename Tile::X* x,
                            float (*out)[Tile::kPanelRows][kLanes]) {
#pragma GCC unroll 4
  for (int part = 0; part < Tile::kStepParts; ++part) {
    const int64_t lane = part * kNativeLanes;
    const auto sum = [&]<bool kIsNothing>(int t, int r) __attribute__((always_inline)) {
      return kIsNothing ? native_broadcast(0.0f) : native_load(out[t][first + r] + lane);
    };
    const auto add = [&](int64_t k, NativeF(&to)[kTokens][Tile::kRows]) __attribute__((always_inline)) {
      decltype(Tile::part_columns(x, part)) v[kTokens];
#pragma GCC unroll 6
      for (int t = 0; t < kTokens; ++t) v[t] = Tile::part_columns(x + in_tile<Tile>(k, t, kTokens), part);
#pragma GCC unroll 4
      for (int r = 0; r < Tile::kRows; ++r) {
        auto weights = Tile::part_weights(panel.row[first + r] + k, part);
        keep(weights);
#pragma GCC unroll 6
        for (int t = 0; t < kTokens; ++t) to[t][r] = Tile::part_add(weights, v[t], to[t][r]);
      }
    };
    if constexpr (Tile::kSpan == 0) {
      NativeF acc[kTokens][Tile::kRows];
#pragma GCC unroll 6
      for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
        for (int r = 0; r < Tile::kRows; ++r) acc[t][r] = sum.template operator()<kFresh>(t, r);
      }
      for (int64_t k = 0; k < width; k += Tile::kStep) add(k, acc);
#pragma GCC unroll 6
      for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
        for (int r = 0; r < Tile::kRows; ++r) native_store(out[t][first + r] + lane, acc[t][r]);
      }
    } else {
      const auto add_span = [&]<bool kIsNothing>(int64_t k) __attribute__((always_inline)) {
        // The sums of the span before are not to be carried over: there is no register left for them.
        asm volatile("" ::: "memory");
        NativeF products[kTokens][Tile::kRows] = {};
#pragma GCC unroll 2
        for (int64_t step = 0; step < Tile::kSpan; step += Tile::kStep) add(k + step, products);
#pragma GCC unroll 4
        for (int r = 0; r < Tile::kRows; ++r) {
          const NativeF scale = Tile::scale(panel.scales[first + r], k);
#pragma GCC unroll 6
          for (int t = 0; t < kTokens; ++t) {
            native_store(out[t][first + r] + lane,
                         Tile::finish(products[t][r], scale, sum.template operator()<kIsNothing>(t, r)));
          }
        }
      };
      add_span.template operator()<kFresh>(0);
      for (int64_t k = Tile::kSpan; k < width; k += Tile::kSpan) add_span.template operator()<false>(k);
    }
  }
}

// The products of a panel, whose columns begin with `column`. Tokens outside, rows inside: a tile's activations stay in
// the first-level cache beside the panel. Between tiles some of the lines `ahead` are asked for.
template <class Math, bool kFresh, class Ahead>
[[gnu::noinline]] void add_panel(const Panel<typename Math::Tile>& panel, int64_t column, const Packed<Math> x,
                                 Ahead ahead, Sums<typename Math::Tile>& out) {
  using Tile = typename Math::Tile;
  const int64_t width = x.width(column);
  const int64_t tiles = (x.tokens + Tile::kTokens - 1) / Tile::kTokens * (Tile::kPanelRows / Tile::kRows);
  const int64_t share = Ahead::kBetweenTiles ? (ahead.lines() + tiles - 1) / tiles : 0;
  for_tiles<Tile>(x.tokens, [&]<int kTokens>(int64_t t) {
    for (int64_t r = 0; r < Tile::kPanelRows; r += Tile::kRows) {
      if constexpr (Ahead::kBetweenTiles) ahead.ask(share);
      add_tile<Tile, kTokens, kFresh>(panel, r, width, x.tile(column, t), out.lane + t);
    }
  });
}

// A block of weight rows, a panel of them at a time. Columns are the outermost loop: those of all activations stay in
// the second-level cache while the panels pass.
template <class Math>
struct Panels {
  using Row = typename Math::Row;
  using Tile = typename Math::Tile;
  static constexpr int64_t kRows = Tile::kPanelRows;

  // The cache lines of the panel that comes next, which need not exist: a few of each row by turns.
  class Ahead {
   public:
    // Widening short codes takes long enough to ask for their few lines.
    static constexpr bool kBetweenTiles = Row::kCodeBits > 8;

    NIBBLE_INLINE Ahead(const ops::WeightMatrix& weights, int64_t first, int64_t from, int64_t width)
        : w(weights),
          n(first),
          column(from),
          all(kRows * ((width * Row::kCodeBits / 8 + kCacheLine - 1) / kCacheLine)) {}
    NIBBLE_INLINE int64_t lines() const { return all; }
    NIBBLE_INLINE void ask(int64_t count) {
      for (; count > 0 && next < all; --count, ++next) {
        const Row row(w, n + next % kRows);
        if (column == 0 && next < kRows) fetch_scales(row, w.cols);
        __builtin_prefetch(static_cast<const char*>(row.bytes(column)) + next / kRows * kCacheLine);
      }
    }

   private:
    const ops::WeightMatrix& w;
    const int64_t n, column, all;
    int64_t next = 0;
  };

  // Widens `width` columns of the rows from n on, none past `last`.
  NIBBLE_INLINE static void widen(const ops::WeightMatrix& w, int64_t n, int64_t last, int64_t column, int64_t width,
                                  Ahead& ahead, Panel<Tile>& panel) {
    for (int64_t r = 0; r < kRows; ++r) {
      if constexpr (!Ahead::kBetweenTiles) ahead.ask(ahead.lines() / kRows);
      const Row row(w, n + r < last ? n + r : last);
      for (int64_t k = 0; k < width; k += Math::kColumns) {
        const int64_t left = w.cols - column - k;
        if (left >= Math::kColumns)
          Math::put(Math::weights(row, column + k), panel, r, k);
        else
          Math::put(Math::weights_rest(row, column + k, left), panel, r, k);
      }
    }
  }

  // Rows and activations at most a block of them; the value of row i and activation t goes to out[t * stride + i].
  static void block(const ops::WeightMatrix& w, int64_t n, int64_t count, const Packed<Math>& x, float* out,
                    int64_t stride) {
    constexpr int64_t kPanels = Tile::kBlockRows / kRows;
    const int64_t last = n + count - 1, panels = (count + kRows - 1) / kRows, tokens = x.tokens;
    constexpr int64_t kAtOnce = kLanes / kRows;  // tokens whose sums are added up together
    Sums<Tile> sums[kPanels];
    if (tokens % kAtOnce != 0) {
      for (int64_t p = 0; p < panels; ++p) __builtin_memset(sums[p].lane[tokens], 0, sizeof(sums[p].lane[0]));
    }
    Panel<Tile> panel;
    for (int64_t column = 0; column < x.columns; column += kPanelColumns) {
      const int64_t width = x.width(column);
      for (int64_t p = 0; p < panels; ++p) {
        // What is read next: the rows below, at the block's end its first ones further on, then the rows below it.
        const bool is_last = p + 1 == panels, is_end = column + width == x.columns;
        const int64_t next_n = is_last && !is_end ? n : n + (p + 1) * kRows;
        const int64_t next_column = !is_last ? column : is_end ? 0 : column + width;
        Ahead ahead(w, next_n, next_column, kPanelColumns);
        widen(w, n + p * kRows, last, column, width, ahead, panel);
        if (column == 0)
          add_panel<Math, true>(panel, column, x, ahead, sums[p]);
        else
          add_panel<Math, false>(panel, column, x, ahead, sums[p]);
      }
    }
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
};

// f(packed, token) for the blocks of tokens that sums are kept for, from `token` on.
template <class Math, class X, class F>
NIBBLE_INLINE void for_token_blocks(const Activations<X>& x, int64_t cols, const F& f) {
  constexpr int64_t kTokens = Math::Tile::kBlockTokens;
  const int64_t bytes = padded<Math>(cols) * static_cast<int64_t>(sizeof(typename Math::X));
  for (int64_t t = 0; t < x.tokens; t += kTokens) {
    f(Packed<Math>(x.prepared + t * bytes, cols, x.tokens - t < kTokens ? x.tokens - t : kTokens), t);
  }
}

template <class Math, class X>
void panels(const ops::WeightMatrix& w, int64_t n, int64_t count, const Activations<X>& x, Block& out) {
  constexpr int64_t kRows = Math::Tile::kBlockRows;
  for_token_blocks<Math>(x, w.cols, [&](const Packed<Math>& packed, int64_t t) {
    for (int64_t i = 0; i < count; i += kRows) {
      Panels<Math>::block(w, n + i, count - i < kRows ? count - i : kRows, packed, out[t] + i, out.stride);
    }
  });
}

// Few activations stream, many meet panels.
template <class Few, class Many, class X>
void prepare(const Activations<X>& x, int64_t cols) {
  if (x.tokens <= Few::kStreamTokens) {
    const Prepared<Few> to(x.prepared, cols);
    for (int64_t t = 0; t < x.tokens; ++t) Few::prepare(x.row[t], cols, [&](int64_t k) { return to[t] + k; });
    return;
  }
  for_token_blocks<Many>(x, cols, [&](const Packed<Many>& to, int64_t first) {
    for_tiles<typename Many::Tile>(to.tokens, [&]<int kTokens>(int64_t t) {
      for (int64_t i = 0; i < kTokens; ++i) {
        Many::prepare(x.row[first + t + i], cols, [&](int64_t k) {
          const int64_t column = k / kPanelColumns * kPanelColumns;
          return to.tile(column, t) + in_tile<typename Many::Tile>(k - column, i, kTokens);
        });
      }
    });
  });
}
template <class Few, class Many, class X>
void dots(const ops::WeightMatrix& w, int64_t n, int64_t count, const Activations<X>& x, Block& out) {
  if (x.tokens <= Few::kStreamTokens)
    streams<Few>(w, n, count, {x.prepared, w.cols}, x.tokens, out);
  else
    panels<Many>(w, n, count, x, out);
}
template <class Few, class Many, class X>
constexpr Dots<X> kDots = {prepare<Few, Many, X>, dots<Few, Many, X>};

template <class X>
Dots<X> choose(fp4::WeightFormat format) {
  Dots<X> chosen = {};
  with_row_type(format, [&]<class Row>() {
    chosen = kDots<FloatMath<Row, float>, FloatMath<Row, std::conditional_t<kWidensFirst, float, X>>, X>;
  });
  return chosen;
}

#ifdef NIBBLE_BF16_PAIRS
#ifdef NIBBLE_TILES
template <class Row>
constexpr Dots<Bf16> kPairDots = {prepare_tiles<Row>, tile_dots<Row>};
constexpr Dots<Bf16> kBf16Dots = kPairDots<Bf16Pairs>, kMxfp4Dots = kPairDots<Mxfp4Pairs>,
                     kNvfp4Dots = kPairDots<Nvfp4Pairs>;
#else
template <class Row>
constexpr Dots<Bf16> kPairDots = kDots<PairMath<Row>, PairMath<Row>, Bf16>;
constexpr Dots<Bf16> kBf16Dots = kPairDots<Bf16SpanRow>, kMxfp4Dots = kPairDots<Fp4SpanRow<fp4::Mxfp4>>,
                     kNvfp4Dots = kPairDots<Fp4SpanRow<fp4::Nvfp4>>;
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
