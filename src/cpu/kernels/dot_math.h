// What dots.cc is written over: how kColumns columns of weights meet as many of activations, in fp32 or as pairs of
// bf16.
//
// Streams keep both sides in registers: `columns` of activations, `weights` of a row, `add` of their products to a sum.
// Panels keep widened weights (`Element`s, `put` there) in the first-level cache: a Tile's `part_*` do the same one
// native vector of lanes at a time, kStep columns a step, for lanes are independent. A Tile with kScaled adds up the
// products of kScaled columns first, and what they come to times their scales to the sum. `rest` functions have zeros
// after the last column.
#pragma once

#include <type_traits>

#include "cpu/kernels/dots.h"
#include "cpu/kernels/pair_rows.h"
#include "cpu/kernels/weights.h"

namespace nibble::cpu::NIBBLE_ISA {

constexpr int64_t kPair = 2 * kLanes;  // columns that weights are unpacked in

// Up to so many activations are prepared in the order of nibbles.
constexpr int64_t kNibbleTokens = kParts == 1 ? 6 : 3;

// Whether panels meet activations that were widened before, once for all panels of a block. AVX-512 has no operations
// to spare beside its products; in AVX2 it is the second-level cache that cannot bring twice the bytes.
constexpr bool kWidensFirst = kParts == 1;

// The part that does not depend on the weights' format. Activations are XType, but for those widened first.
template <class XType, Order kOrder>
struct FloatTile {
  using X = std::conditional_t<kWidensFirst, float, XType>;
  using Element = float;
  static constexpr int kRows = 4;                      // of a tile; with its tokens, the accumulators that
  static constexpr int kTokens = kParts == 1 ? 6 : 3;  // fill, and do not overflow, 32 or 16 registers
  static constexpr int kStepParts = kParts;
  static constexpr int64_t kStep = kLanes, kPanelRows = 8, kScaled = 0;

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

template <class RowType, class X, Order kOrder>
struct FloatMath {
  using Tile = FloatTile<X, kOrder>;
  using Row = RowType;
  using Sum = F16;
  struct Columns {
    F16 half[2];
  };
  using Weights = Columns;
  static constexpr int64_t kColumns = kPair;
  static constexpr bool kWidens = kWidensFirst && (sizeof(X) == 2 || kOrder != Order::kNatural);
  static constexpr int kStreamTokens = kParts == 1 ? 6 : 3;
  static constexpr int stream_rows(int tokens) { return tokens == 1 || kParts == 1 ? 4 : 2; }

  NIBBLE_INLINE static Sum nothing() { return zero(); }
  NIBBLE_INLINE static F16 sixteen(const X* p) {
#ifdef NIBBLE_SPLIT_ORDER
    if constexpr (kOrder == Order::kSplit) return load_split(p);
#endif
    return load(p);
  }
  // `count` activations, a multiple of kPair, as tiles read them.
  NIBBLE_INLINE static void widen(const X* p, int64_t count, float* out) {
    for (int64_t k = 0; k < count; k += kLanes) store(out + k, from_natural<kOrder>(load(p + k)));
  }
  NIBBLE_INLINE static Columns columns(const X* p) { return {{sixteen(p), sixteen(p + kLanes)}}; }
  NIBBLE_INLINE static Columns columns_rest(const X* p, int64_t count) {
    Columns out;
    for (int i = 0; i < 2; ++i, p += kLanes, count -= kLanes) {
      if (count <= 0)
        out.half[i] = zero();
      else if constexpr (kOrder == Order::kNibble)  // padded with zeros by `prepare`
        out.half[i] = load(p);
      else
        out.half[i] = from_natural<kOrder>(load_n(p, count < kLanes ? count : kLanes));
    }
    return out;
  }
  NIBBLE_INLINE static Columns weights(const Row& row, int64_t k) {
    Columns out;
    if constexpr (kOrder == Order::kNatural)
      out = {{row.at(k), row.at(k + kLanes)}};
    else
      row.template unpack<kOrder>(k, out.half);
    return out;
  }
  NIBBLE_INLINE static Columns weights_rest(const Row& row, int64_t k, int64_t count) {
    Columns out;
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
  NIBBLE_INLINE static Sum add(const Columns& w, const Columns& x, Sum s) {
    return fma(w.half[1], x.half[1], fma(w.half[0], x.half[0], s));
  }
  NIBBLE_INLINE static float total(Sum s) { return sum<kOrder>(s); }

  template <class Panel>
  NIBBLE_INLINE static void put(const Columns& w, Panel& panel, int64_t r, int64_t k) {
    store(panel.row[r] + k, w.half[0]);
    store(panel.row[r] + k + kLanes, w.half[1]);
  }
};

#if defined(NIBBLE_BF16_PAIRS) && !defined(NIBBLE_TILES)
struct PairTile {
  using X = Bf16;
  using Element = uint16_t;
  static constexpr int kRows = 4, kTokens = 6, kStepParts = 1;
  static constexpr int64_t kStep = kPair, kPanelRows = 16, kScaled = 0;

  NIBBLE_INLINE static NativePairs part_columns(const Bf16* p, int) {
    return native_load_pairs(reinterpret_cast<const uint16_t*>(p));
  }
  NIBBLE_INLINE static NativePairs part_weights(const uint16_t* p, int) { return native_load_pairs(p); }
  NIBBLE_INLINE static NativeF part_add(NativePairs w, NativePairs x, NativeF s) { return native_dot_pairs(w, x, s); }
  NIBBLE_INLINE static void totals(const float* lanes, float* out) { native_sums(lanes, out); }
};

// bf16 weights. Lane i takes columns 32 j + 2 i and 32 j + 2 i + 1 in ascending j.
struct PairMath {
  using Tile = PairTile;
  using Row = Bf16Pairs;
  using Sum = NativeF;
  using Columns = NativePairs;
  using Weights = NativePairs;
  static constexpr bool kWidens = false;
  static constexpr int64_t kColumns = kPair;
  static constexpr int kStreamTokens = 6;
  static constexpr int stream_rows(int) { return 4; }

  NIBBLE_INLINE static Sum nothing() { return native_broadcast(0.0f); }
  NIBBLE_INLINE static Columns columns(const Bf16* p) { return PairTile::part_columns(p, 0); }
  NIBBLE_INLINE static Columns columns_rest(const Bf16* p, int64_t count) {
    return native_load_pairs_head(reinterpret_cast<const uint16_t*>(p), count);
  }
  NIBBLE_INLINE static Weights weights(const Row& row, int64_t k) { return row.at(k); }
  NIBBLE_INLINE static Weights weights_rest(const Row& row, int64_t k, int64_t count) { return row.rest(k, count); }
  NIBBLE_INLINE static Sum add(Weights w, Columns x, Sum s) { return native_dot_pairs(w, x, s); }
  NIBBLE_INLINE static float total(Sum s) { return native_sum(s); }
  template <class Panel>
  NIBBLE_INLINE static void put(Weights w, Panel& panel, int64_t r, int64_t k) {
    native_store_pairs(panel.row[r] + k, w);
  }
};

// FP4 weights. Lane i takes columns 128 j + 8 i .. 128 j + 8 i + 7, of which 8 i + q and 8 i + 4 + q meet in product q;
// what the four come to, from nothing on, meets their scale on its way to the sum. In ascending j.
struct ScaledPairTile : PairTile {
  static constexpr int kTokens = 3;  // as many sums of products as sums
  static constexpr int64_t kScaled = kScaledColumns;
};

template <class RowType>
struct ScaledPairMath {
  using Tile = ScaledPairTile;
  using Row = RowType;
  using Sum = NativeF;
  struct Columns {
    const uint16_t* quarters;  // activations as `widen` puts them
  };
  using Weights = ScaledPairs;
  static constexpr bool kWidens = true;
  static constexpr int64_t kColumns = kScaledColumns;
  static constexpr int kStreamTokens = 6;
  static constexpr int stream_rows(int tokens) { return tokens <= 3 ? 4 : 2; }

  // `count` activations, a multiple of kColumns, in the order of the codes; `_rest`: fewer, and zeros after.
  NIBBLE_INLINE static void widen(const Bf16* p, int64_t count, Bf16* out) {
    for (int64_t k = 0; k < count; k += kColumns) widen_rest(p + k, kColumns, out + k);
  }
  NIBBLE_INLINE static void widen_rest(const Bf16* p, int64_t count, Bf16* out) {
    NativePairs natural[4], quarters[4];
    for (int i = 0; i < 4; ++i, p += kPair, count -= kPair) {
      const auto* at = reinterpret_cast<const uint16_t*>(p);
      natural[i] = count >= kPair ? native_load_pairs(at)
                   : count > 0    ? native_load_pairs_head(at, count)
                                  : NativePairs{};
    }
    native_to_quarters(natural, quarters);
    for (int q = 0; q < 4; ++q) native_store_pairs(reinterpret_cast<uint16_t*>(out) + q * kPair, quarters[q]);
  }
  NIBBLE_INLINE static Sum nothing() { return native_broadcast(0.0f); }
  NIBBLE_INLINE static Columns columns(const Bf16* p) { return {reinterpret_cast<const uint16_t*>(p)}; }
  NIBBLE_INLINE static Columns columns_rest(const Bf16* p, int64_t) { return columns(p); }
  NIBBLE_INLINE static Weights weights(const Row& row, int64_t k) { return row.at(k); }
  NIBBLE_INLINE static Weights weights_rest(const Row& row, int64_t k, int64_t count) { return row.rest(k, count); }
  NIBBLE_INLINE static Sum add(const Weights& w, Columns x, Sum s) {
    NativeF products = nothing();
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      products = native_dot_pairs(w.quarter[q], native_load_pairs(x.quarters + q * kPair), products);
    }
    return native_fma(products, w.scale, s);
  }
  NIBBLE_INLINE static float total(Sum s) { return native_sum(s); }
  template <class Panel>
  NIBBLE_INLINE static void put(const Weights& w, Panel& panel, int64_t r, int64_t k) {
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) native_store_pairs(panel.row[r] + k + q * kPair, w.quarter[q]);
    native_store(panel.scales[r][k / kColumns], w.scale);
  }
};
#endif

}  // namespace nibble::cpu::NIBBLE_ISA
