// What dots.cc is written over: how kColumns columns of weights meet as many of activations, in fp32 or as pairs of
// bf16.
//
// Activations are prepared first: `prepare` puts them into the order and the type, `X`, that they are read in, with
// zeros up to a multiple of kColumns; a Tile's kStep columns from k on go to `to(k)`. Streams keep sums in registers,
// and the `weights` of some rows (`weights_rest`: the last ones, fewer, with zeros after): `begin` of a sum, `add` to
// it in `steps` (at most kSteps), `finish`. Panels keep widened weights (`Element`s, `put` there) in the first-level
// cache: a Tile's `part_*` do the same one native vector of lanes at a time, kStep columns a step, for lanes are
// independent. A Tile with kSpan adds up the products of so many columns first, from nothing on, and `finish`es the sum
// with what they come to.
#pragma once

#include <type_traits>

#include "cpu/kernels/dots.h"
#include "cpu/kernels/pair_rows.h"
#include "cpu/kernels/weights.h"

namespace nibble::cpu::NIBBLE_ISA {

constexpr int64_t kPair = 2 * kLanes;   // columns that weights are unpacked in
constexpr int64_t kPanelColumns = 512;  // of fp32 or of pairs: 16 KiB, half of the smallest first-level cache

// Whether panels meet activations that were widened. AVX-512 has no operations to spare beside its products; in AVX2 it
// is the second-level cache that cannot bring twice the bytes.
constexpr bool kWidensFirst = kParts == 1;

// The part that does not depend on the weights' format.
template <class XType, Order kOrder>
struct FloatTile {
  using X = XType;
  using Element = float;
  struct Scales {};
  static constexpr int kRows = 4;                      // of a tile; with its tokens, the accumulators that
  static constexpr int kTokens = kParts == 1 ? 6 : 3;  // fill, and do not overflow, 32 or 16 registers
  static constexpr int kStepParts = kParts;
  static constexpr int64_t kStep = kLanes, kPanelRows = 8, kSpan = 0;
  static constexpr int64_t kBlockRows = 64, kBlockTokens = 64;  // whose sums are kept while panels pass

  NIBBLE_INLINE static NativeF part_columns(const X* p, int part) {
    if constexpr (sizeof(X) == 4)
      return native_load(p + part * kNativeLanes);
    else if constexpr (kOrder == Order::kSplit)
      return load_split_part(p, part);
    else
      return native_load_bf16(reinterpret_cast<const uint16_t*>(p) + part * kNativeLanes);
  }
  NIBBLE_INLINE static NativeF part_weights(const float* p, int part) { return native_load(p + part * kNativeLanes); }
  NIBBLE_INLINE static NativeF part_add(NativeF w, NativeF x, NativeF s) { return native_fma(w, x, s); }
  // Totals of sixteen sums.
  NIBBLE_INLINE static void totals(const float* lanes, float* out) { sums<kOrder>(lanes, out); }
};

// The order that a format's columns come in at the least cost, beside activations that can be put into any, or stay as
// they are.
template <class Row, class X>
consteval Order order_of() {
  if (Row::kNibbles && sizeof(X) == 4) return Order::kNibble;
  return Row::kPaired ? Order::kSplit : Order::kNatural;
}

// XType: float, or Bf16 for activations that stay as they are.
template <class RowType, class XType>
struct FloatMath {
  static constexpr Order kOrder = order_of<RowType, XType>();
  using X = XType;
  using Tile = FloatTile<X, kOrder>;
  using Row = RowType;
  using Sum = F16;
  struct Weights {
    F16 half[2];
  };
  static constexpr int64_t kColumns = kPair;
  static constexpr int kSteps = 2, kStreamTokens = kWidensFirst ? 6 : 3;
  static constexpr int stream_rows(int tokens) { return tokens == 1 || kWidensFirst ? 4 : 2; }
  // Four of bf16's share what they read of the activation; others' lookups want the registers.
  static constexpr int rows_together(int tokens) { return tokens == 1 && Row::kCodeBits > 8 ? 4 : 1; }

  template <class From, class To>
  NIBBLE_INLINE static void prepare(const From* p, int64_t count, const To& to) {
    for (int64_t k = 0; k < count; k += kPair) {
      for (int64_t i = k; i < k + kPair; i += kLanes) {
        X* const out = to(i);
        if constexpr (sizeof(X) == 2) {
          const int64_t left = count - i < kLanes ? count - i : kLanes;
          for (int64_t c = 0; c < kLanes; ++c) out[c] = c < left ? p[i + c] : X{};
        } else {
          const F16 natural = count > i ? load_n(p + i, count - i < kLanes ? count - i : kLanes) : zero();
          store(out, from_natural<kOrder>(natural));
        }
      }
    }
  }
  NIBBLE_INLINE static Sum nothing() { return zero(); }
  NIBBLE_INLINE static Weights weights(const Row& row, int64_t k) {
    Weights out;
    if constexpr (kOrder == Order::kNatural)
      out = {{row.at(k), row.at(k + kLanes)}};
    else
      row.template unpack<kOrder>(k, out.half);
    return out;
  }
  NIBBLE_INLINE static Weights weights_rest(const Row& row, int64_t k, int64_t count) {
    Weights out;
    for (int i = 0; i < 2; ++i, k += kLanes, count -= kLanes) {
      if (count <= 0) {
        out.half[i] = zero();
        continue;
      }
      if constexpr (Row::kHasTail) {
        if (count < kLanes) {
          out.half[i] = from_natural<kOrder>(row.tail(k, count));
          continue;
        }
      }
      out.half[i] = from_natural<kOrder>(row.at(k));
    }
    return out;
  }
  NIBBLE_INLINE static int steps(const Weights&) { return kSteps; }
  NIBBLE_INLINE static Sum begin(Sum s) { return s; }
  NIBBLE_INLINE static F16 part(const Weights& w, int i) { return w.half[i]; }
  NIBBLE_INLINE static Sum add(F16 part, const X* x, int i, Sum s) { return fma(part, load(x + i * kLanes), s); }
  NIBBLE_INLINE static Sum finish(Sum all, const Weights&, Sum) { return all; }
  NIBBLE_INLINE static float total(Sum s) { return sum<kOrder>(s); }

  template <class Panel>
  NIBBLE_INLINE static void put(const Weights& w, Panel& panel, int64_t r, int64_t k) {
    store(panel.row[r] + k, w.half[0]);
    store(panel.row[r] + k + kLanes, w.half[1]);
  }
};

#if defined(NIBBLE_BF16_PAIRS) && !defined(NIBBLE_TILES)
template <class Row>
struct PairTile {
  using X = Bf16;
  using Element = uint16_t;
  static constexpr int kRows = 4, kTokens = 6, kStepParts = 1;
  static constexpr int64_t kStep = kPair, kPanelRows = 16, kSpan = kSpanColumns;
  static constexpr int64_t kBlockRows = 32, kBlockTokens = 128;
  static constexpr bool kIsScaled = Row::kScaleGroup != 0;
  struct SpanScales {
    alignas(64) float lane[kPanelColumns / kSpan][kLanes];
  };
  struct NoScales {};
  using Scales = std::conditional_t<kIsScaled, SpanScales, NoScales>;

  NIBBLE_INLINE static NativePairs part_columns(const Bf16* p, int) {
    return native_load_pairs(reinterpret_cast<const uint16_t*>(p));
  }
  NIBBLE_INLINE static NativePairs part_weights(const uint16_t* p, int) { return native_load_pairs(p); }
  NIBBLE_INLINE static NativeF part_add(NativePairs w, NativePairs x, NativeF s) { return native_dot_pairs(w, x, s); }
  NIBBLE_INLINE static NativeF finish(NativeF products, NativeF scale, NativeF s) {
    if constexpr (kIsScaled)
      return native_fma(products, scale, s);
    else
      return s + products;
  }
  NIBBLE_INLINE static NativeF scale(const Scales& scales, int64_t k) {
    if constexpr (kIsScaled)
      return native_load(scales.lane[k / kSpan]);
    else
      return native_broadcast(1.0f);
  }
  NIBBLE_INLINE static void totals(const float* lanes, float* out) { native_sums(lanes, out); }
};

// In a span of 256 columns a lane takes the products of its sixteen, two at a time, from nothing on; what they come to
// meets their scale, if they have one, on its way to the sum. Spans in ascending order.
template <class RowType>
struct PairMath {
  using X = Bf16;
  using Tile = PairTile<RowType>;
  using Row = RowType;
  using Sum = NativeF;
  using Weights = typename Row::Span;
  static constexpr int64_t kColumns = kSpanColumns;
  static constexpr int kSteps = 8, kStreamTokens = 6;
  static constexpr int stream_rows(int tokens) { return tokens <= 2 ? 4 : 2; }
  // Products of a row wait for each other: those of others are between them.
  static constexpr int rows_together(int tokens) { return stream_rows(tokens); }

  template <class To>
  NIBBLE_INLINE static void prepare(const Bf16* p, int64_t count, const To& to) {
    for (int64_t k = 0; k < count; k += kColumns) {
      const Bf16Span span = {reinterpret_cast<const uint16_t*>(p) + k, count - k};
      NativePairs v[kSteps];
      for (int i = 0; i < kSteps; ++i) v[i] = span.pairs(i);
      if constexpr (Tile::kIsScaled) native_to_codes(v);
      for (int i = 0; i < kSteps; ++i) native_store_pairs(reinterpret_cast<uint16_t*>(to(k + i * kPair)), v[i]);
    }
  }
  NIBBLE_INLINE static Sum nothing() { return native_broadcast(0.0f); }
  NIBBLE_INLINE static Weights weights(const Row& row, int64_t k) { return row.at(k); }
  NIBBLE_INLINE static Weights weights_rest(const Row& row, int64_t k, int64_t count) { return row.rest(k, count); }
  NIBBLE_INLINE static int steps(const Weights& w) { return w.steps(); }
  NIBBLE_INLINE static Sum begin(Sum) { return nothing(); }
  NIBBLE_INLINE static NativePairs part(const Weights& w, int i) { return w.pairs(i); }
  NIBBLE_INLINE static Sum add(NativePairs part, const Bf16* x, int i, Sum s) {
    return native_dot_pairs(part, Tile::part_columns(x + i * kPair, 0), s);
  }
  NIBBLE_INLINE static Sum finish(Sum products, const Weights& w, Sum s) {
    return Tile::finish(products, w.scale(), s);
  }
  NIBBLE_INLINE static float total(Sum s) { return native_sum(s); }
  template <class Panel>
  NIBBLE_INLINE static void put(const Weights& w, Panel& panel, int64_t r, int64_t k) {
#pragma GCC unroll 8
    for (int i = 0; i < kSteps; ++i) native_store_pairs(panel.row[r] + k + i * kPair, w.pairs(i));
    if constexpr (Tile::kIsScaled) native_store(panel.scales[r].lane[k / kColumns], w.scale());
  }
};
#endif

}  // namespace nibble::cpu::NIBBLE_ISA
