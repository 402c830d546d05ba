// Dots of bf16 activations with bf16, MXFP4 and NVFP4 weights on matrix tiles.
//
// A tile of weights is sixteen rows by 32 columns, one of activations 32 columns of up to sixteen of them, in pairs. A
// sum takes the products of each 32 columns at once, in ascending order, however many rows there are.
//
// Weights pass in pieces of 32 rows by 128 or 512 columns. While one is multiplied the next is widened into a panel, 32
// columns after each 32 columns, so that products and lookups run beside each other.
#pragma once

#include "cpu/kernels/dots.h"
#include "cpu/kernels/pair_rows.h"
#include "cpu/kernels/tiles.h"

#ifdef NIBBLE_TILES
namespace nibble::cpu::NIBBLE_ISA {

constexpr int64_t kTilePairs = kTileRows * kTileRows;  // those of a tile of activations, and sums of a tile

NIBBLE_INLINE int64_t tiles_of(int64_t n, int64_t size) { return (n + size - 1) / size; }

// Puts `tokens` rows into tiles of kTokens, 1 or 16: [token / kTokens][column / 32], each [pair][token] with zeros for
// tokens and columns that are not there.
template <class Row, int64_t kTokens>
NIBBLE_INLINE void pack_tiles(const Bf16* const* x, int64_t tokens, int64_t cols, uint32_t* out) {
  const auto pairs = [&](int64_t t, int64_t k) __attribute__((always_inline)) {
    const int64_t left = cols - k;
    const auto* at = reinterpret_cast<const uint16_t*>(x[t]) + k;
    const NativePairs v = left < kPairColumns ? native_load_pairs_head(at, left) : native_load_pairs(at);
    return Row::kNibbleOrder ? native_pairs_to_nibble(v) : v;
  };
  for (int64_t t = 0; t < tokens; t += kTokens) {
    for (int64_t k = 0; k < cols; k += kPairColumns, out += kTileRows * kTokens) {
      NativePairs row[kTokens];
      for (int64_t i = 0; i < kTokens; ++i) {
        row[i] = t + i < tokens ? pairs(t + i, k) : NativePairs{};
      }
      if constexpr (kTokens > 1) native_transpose(row);
      for (int64_t i = 0; i < kTokens; ++i) {
        native_store_pairs(reinterpret_cast<uint16_t*>(out + i * kTileRows), row[i]);
      }
    }
  }
}

template <class Row>
void prepare_tiles(const Activations<Bf16>& x, int64_t cols) {
  auto* const out = reinterpret_cast<uint32_t*>(x.prepared);
  if (x.tokens == 1)
    pack_tiles<Row, 1>(x.row, 1, cols, out);
  else
    pack_tiles<Row, kTileRows>(x.row, x.tokens, cols, out);
}

// kTokens: 1, or 16 for up to kBlockTokens. kIsFew: activations are at most 32, so that sums stay in their tiles over
// all columns; else columns are outermost, and sums are put down after each piece.
template <class Row, int64_t kTokens, bool kIsFew>
class TileDots {
 public:
  NIBBLE_INLINE TileDots(const ops::WeightMatrix& weights, int64_t first, int64_t row_count,
                         const Activations<Bf16>& activations)
      : w(weights), n(first), count(row_count), x(activations), blocks(tiles_of(weights.cols, kPairColumns)) {}

  NIBBLE_INLINE void run(Block& out) {
    const TilesForUse<kTokens> tiles;
    const int64_t token_tiles = tiles_of(x.tokens, kTokens);
    Piece at;
    Widening(*this, at, panels[0]).widen_from(0);
    for (int which = 0; at.row < count; which ^= 1) {
      const Piece next = after(at);
      const Widening widening(*this, next, panels[which ^ 1]);
      const int64_t here = blocks_at(at.block), share = kPieceRows / tiles_of(token_tiles, 2);
      for (int64_t t = 0; t < token_tiles; t += 2) {
        const int64_t begin = t / 2 * share, end = t + 2 < token_tiles ? begin + share : kPieceRows;
        const auto widen = [&](int64_t b) __attribute__((always_inline)) { widening.widen(b, begin, end); };
        if (t + 1 < token_tiles)
          multiply<2>(panels[which], at, t, widen);
        else
          multiply<1>(panels[which], at, t, widen);
      }
      widening.widen_from(here);
      if (at.block + here == blocks) land(at.row, out);
      at = next;
    }
  }

 private:
  static constexpr int64_t kPieceRows = 2 * kTileRows, kPieceBlocks = kIsFew ? 4 : 16;

  struct Panel {
    alignas(64) uint16_t tile[2][kPieceBlocks][kTileRows][kPairColumns];
  };
  struct Piece {
    int64_t row = 0, block = 0;  // from row `n + row` and column `32 block` on
  };
  struct Sums {  // [token] or [weight row][token]
    alignas(64) float tile[kTileRows * kTokens];
  };

  // The piece after: past the last one there are those of the rows further on.
  NIBBLE_INLINE Piece after(Piece p) const {
    if (kIsFew) {
      p.block += kPieceBlocks;
      if (p.block >= blocks) p = {p.row + kPieceRows, 0};
    } else {
      const bool is_last = p.block + kPieceBlocks >= blocks;
      p.row += kPieceRows;
      if (p.row >= count) p = is_last ? Piece{p.row, 0} : Piece{0, p.block + kPieceBlocks};
    }
    return p;
  }
  NIBBLE_INLINE int64_t blocks_at(int64_t block) const {
    return blocks - block < kPieceBlocks ? blocks - block : kPieceBlocks;
  }

  // A piece on its way into a panel; asks for what comes two pieces later.
  class Widening {
   public:
    NIBBLE_INLINE Widening(const TileDots& dots, Piece p, Panel& panel)
        : of(dots), piece(p), ahead(dots.after(dots.after(p))), to(panel) {
      const int64_t left = of.count - piece.row;
      rows = left < kPieceRows ? left : kPieceRows;
      blocks = of.blocks_at(piece.block);
    }
    // The b-th 32 columns of rows [begin, end), of those that there are.
    NIBBLE_INLINE void widen(int64_t b, int64_t begin, int64_t end) const {
      if (b >= blocks) return;
      const ops::WeightMatrix w = of.w;  // a copy that no store can change
      const int64_t last = end < rows ? end : rows, column = (piece.block + b) * kPairColumns, rest = w.cols - column;
      if (b * kBlockBytes % 64 == 0) ask(b, begin, last);
      for (int64_t g = 0; g < 2; ++g) {
        const int64_t i = begin < g * kTileRows ? g * kTileRows : begin;
        const int64_t stop = last < (g + 1) * kTileRows ? last : (g + 1) * kTileRows, n = of.n + piece.row;
        uint16_t(*out)[kPairColumns] = to.tile[g][b] - g * kTileRows;
        if (rest >= kPairColumns) {
#pragma GCC unroll 4
          for (int64_t r = i; r < stop; ++r) native_store_pairs(out[r], Row(w, n + r).at(column));
        } else {
          for (int64_t r = i; r < stop; ++r) native_store_pairs(out[r], Row(w, n + r).rest(column, rest));
        }
      }
    }
    NIBBLE_INLINE void widen_from(int64_t b) const {
      for (; b < blocks; ++b) widen(b, 0, kPieceRows);
    }

   private:
    static constexpr int64_t kBlockBytes = kPairColumns * Row::kCodeBits / 8;
    NIBBLE_INLINE void ask(int64_t b, int64_t begin, int64_t end) const {
      const ops::WeightMatrix w = of.w;
      const int64_t n = of.n + ahead.row, column = (ahead.block + b) * kPairColumns;
#pragma GCC unroll 4
      for (int64_t r = begin; r < end; ++r) __builtin_prefetch(Row(w, n + r).bytes(column));
      if constexpr (Row::kScaleGroup != 0) {
        if (column > 0) return;
        for (int64_t r = begin; r < end; ++r) {
          for (int64_t s = 0; s < w.cols / Row::kScaleGroup; s += 64) __builtin_prefetch(Row(w, n + r).scales + s);
        }
      }
    }

    const TileDots& of;
    Piece piece, ahead;
    Panel& to;
    int64_t rows, blocks;
  };

  NIBBLE_INLINE const uint32_t* activations(int64_t token_tile, int64_t block) const {
    return reinterpret_cast<const uint32_t*>(x.prepared) + (token_tile * blocks + block) * kTileRows * kTokens;
  }

  // The products of a piece with token tiles t .. t + kTokenTiles - 1; after each 32 columns `between`, with their
  // number.
  template <int kTokenTiles, class F>
  NIBBLE_INLINE void multiply(const Panel& panel, Piece at, int64_t t, const F& between) {
    constexpr int64_t kStride = 4 * kTokens;
    const int64_t first = kIsFew ? 0 : at.row / kTileRows, here = blocks_at(at.block);
    const bool has_second = at.row + kTileRows < count;
    Sums(&upper)[kTokenTileLimit] = sums[first], (&lower)[kTokenTileLimit] = sums[first + 1];
    if (at.block == 0) {
      tile_zero<0>();
      tile_zero<1>();
      tile_zero<2>();
      tile_zero<3>();
    } else if (!kIsFew) {
      tile_load<0>(upper[t].tile, kStride);
      if (has_second) tile_load<2>(lower[t].tile, kStride);
      if constexpr (kTokenTiles == 2) {
        tile_load<1>(upper[t + 1].tile, kStride);
        if (has_second) tile_load<3>(lower[t + 1].tile, kStride);
      }
    }
    const uint32_t* const left = activations(t, at.block);
    const uint32_t* const right = activations(t + kTokenTiles - 1, at.block);
    for (int64_t b = 0; b < here; ++b) {
      tile_load<4>(panel.tile[0][b], sizeof panel.tile[0][0][0]);
      tile_load<6>(left + b * kTileRows * kTokens, kStride);
      tile_multiply<0, 4, 6>();
      if constexpr (kTokenTiles == 2) {
        tile_load<7>(right + b * kTileRows * kTokens, kStride);
        tile_multiply<1, 4, 7>();
      }
      if (has_second) {
        tile_load<5>(panel.tile[1][b], sizeof panel.tile[0][0][0]);
        tile_multiply<2, 5, 6>();
        if constexpr (kTokenTiles == 2) tile_multiply<3, 5, 7>();
      }
      between(b);
    }
    if (kIsFew && at.block + here < blocks) return;
    tile_store<0>(upper[t].tile, kStride);
    if (has_second) tile_store<2>(lower[t].tile, kStride);
    if constexpr (kTokenTiles == 2) {
      tile_store<1>(upper[t + 1].tile, kStride);
      if (has_second) tile_store<3>(lower[t + 1].tile, kStride);
    }
  }

  // The sums of 32 rows are complete.
  NIBBLE_INLINE void land(int64_t row, Block& out) {
    const F16 scale = broadcast(w.tensor_scale);
    for (int64_t r = row; r < row + kPieceRows && r < count; r += kTileRows) {
      const Sums(&of_row)[kTokenTileLimit] = sums[(kIsFew ? r - row : r) / kTileRows];
      if constexpr (kTokens == 1) {
        store(out[0] + r, load(of_row[0].tile) * scale);
      } else {
        for (int64_t t = 0; t < x.tokens; t += kTileRows) {
          __m512i lanes[kTileRows];
          for (int64_t i = 0; i < kTileRows; ++i) {
            lanes[i] = _mm512_load_si512(of_row[t / kTileRows].tile + i * kTileRows);
          }
          native_transpose(lanes);
          for (int64_t i = 0; i < kTileRows && t + i < x.tokens; ++i) {
            store(out[t + i] + r, F16{__builtin_bit_cast(NativeF, lanes[i])} * scale);
          }
        }
      }
    }
  }

  static constexpr int64_t kTokenTileLimit = kTokens == 1 ? 1 : kIsFew ? 2 : kBlockTokens / kTileRows;
  static constexpr int64_t kRowTileLimit = kIsFew ? 2 : kBlockRows / kTileRows;

  const ops::WeightMatrix& w;
  const int64_t n, count;
  const Activations<Bf16>& x;
  const int64_t blocks;
  Panel panels[2];
  Sums sums[kRowTileLimit][kTokenTileLimit];
};

template <class Row>
void tile_dots(const ops::WeightMatrix& w, int64_t n, int64_t count, const Activations<Bf16>& x, Block& out) {
  if (x.tokens == 1)
    TileDots<Row, 1, true>(w, n, count, x).run(out);
  else if (x.tokens <= 2 * kTileRows)
    TileDots<Row, kTileRows, true>(w, n, count, x).run(out);
  else
    TileDots<Row, kTileRows, false>(w, n, count, x).run(out);
}

}  // namespace nibble::cpu::NIBBLE_ISA
#endif
