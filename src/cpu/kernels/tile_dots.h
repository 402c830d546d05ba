// Dots of bf16 activations with bf16, MXFP4 and NVFP4 weights on matrix tiles.
//
// A tile of weights is sixteen rows by 32 columns, one of activations 32 columns of up to sixteen of them, in pairs. A
// sum takes the products of each 32 columns at once, in ascending order, however many rows there are.
//
// Weights pass in pieces of 32 rows by 256 columns. While one is multiplied the next is widened, a few rows after each
// 32 columns, into a panel in the first-level cache: products and lookups run beside each other, and no tile is loaded
// from lines that were just written.
#pragma once

#include "cpu/kernels/dots.h"
#include "cpu/kernels/pair_rows.h"
#include "cpu/kernels/tiles.h"

#ifdef NIBBLE_TILES
namespace nibble::cpu::NIBBLE_ISA {

constexpr int64_t kTilePairs = kTileRows * kTileRows;  // those of a tile of activations, and sums of a tile

NIBBLE_INLINE int64_t tiles_of(int64_t n, int64_t size) { return (n + size - 1) / size; }

// Puts `blocks` times 32 columns from `column` on of `tokens` rows into tiles of kTokens, 1 or 16:
// [token / kTokens][block], each [pair][token] with zeros for tokens and columns that are not there.
template <class Row, int64_t kTokens>
NIBBLE_INLINE void pack_tiles(const Bf16* const* x, int64_t tokens, int64_t cols, int64_t column, int64_t blocks,
                              uint32_t* out) {
  const auto pairs = [&](int64_t t, int64_t k) __attribute__((always_inline)) {
    const int64_t left = cols - k;
    const auto* at = reinterpret_cast<const uint16_t*>(x[t]) + k;
    const NativePairs v = left < kPairColumns ? native_load_pairs_head(at, left) : native_load_pairs(at);
    return Row::kNibbleOrder ? native_pairs_to_nibble(v) : v;
  };
  for (int64_t t = 0; t < tokens; t += kTokens) {
    for (int64_t b = 0; b < blocks; ++b, out += kTileRows * kTokens) {
      NativePairs row[kTokens];
      for (int64_t i = 0; i < kTokens; ++i) {
        row[i] = t + i < tokens ? pairs(t + i, column + b * kPairColumns) : NativePairs{};
      }
      if constexpr (kTokens > 1) native_transpose(row);
      for (int64_t i = 0; i < kTokens; ++i) {
        native_store_pairs(reinterpret_cast<uint16_t*>(out + i * kTileRows), row[i]);
      }
    }
  }
}

// Few activations are packed whole.
template <class Row>
void prepare_tiles(Activations<Bf16>& x, int64_t cols) {
  const int64_t blocks = tiles_of(cols, kPairColumns), tiles = tiles_of(x.tokens, kTileRows);
  const int64_t pairs = x.tokens == 1 ? blocks * kTileRows : tiles * blocks * kTilePairs;
  x.is_prepared = tiles <= 2 && pairs <= kPreparedFloats;
  if (!x.is_prepared) return;
  auto* const out = reinterpret_cast<uint32_t*>(x.prepared);
  if (x.tokens == 1)
    pack_tiles<Row, 1>(x.row, 1, cols, 0, blocks, out);
  else
    pack_tiles<Row, kTileRows>(x.row, x.tokens, cols, 0, blocks, out);
}

// kTokens: 1, or 16 for up to kBlockTokens. kIsPrepared: the activations are packed whole and at most 32, so that sums
// stay in their tiles over all columns; else columns are outermost, and sums are put down after each piece.
template <class Row, int64_t kTokens, bool kIsPrepared>
class TileDots {
 public:
  NIBBLE_INLINE TileDots(const ops::WeightMatrix& weights, int64_t first, int64_t row_count,
                         const Activations<Bf16>& activations)
      : w(weights), n(first), count(row_count), x(activations), blocks(tiles_of(weights.cols, kPairColumns)) {}

  NIBBLE_INLINE void run(Block& out) {
    const TilesForUse<kTokens> tiles;
    const int64_t token_tiles = tiles_of(x.tokens, kTokens);
    Piece at;
    Widening first(*this, at, panels[0]);
    first.finish();
    for (int which = 0; at.row < count; which ^= 1) {
      const Piece next = after(at);
      Widening widening(*this, next, panels[which ^ 1]);
      const int64_t here = blocks_at(at.block);
      const int64_t steps = (token_tiles + 1) / 2 * here, share = tiles_of(kPieceRows, steps);
      if (!kIsPrepared && at.row == 0) {
        pack_tiles<Row, kTileRows>(x.row, x.tokens, w.cols, at.block * kPairColumns, here, packed);
      }
      for (int64_t t = 0; t < token_tiles; t += 2) {
        if (t + 1 < token_tiles)
          multiply<2>(panels[which], at, t, [&]() __attribute__((always_inline)) { widening.advance(share); });
        else
          multiply<1>(panels[which], at, t, [&]() __attribute__((always_inline)) { widening.advance(share); });
      }
      widening.finish();
      if (at.block + here == blocks) land(at.row, out);
      at = next;
    }
  }

 private:
  static constexpr int64_t kPieceRows = 2 * kTileRows, kPieceBlocks = 8;

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
    if (kIsPrepared) {
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
    }
    NIBBLE_INLINE void advance(int64_t share) {
      const int64_t end = row + share < rows ? row + share : rows;
      for (; row < end; ++row) widen(row);
    }
    NIBBLE_INLINE void finish() { advance(kPieceRows); }

   private:
    NIBBLE_INLINE void widen(int64_t r) const {
      const Row from(of.w, of.n + piece.row + r), later(of.w, of.n + ahead.row + r);
      const int64_t k = piece.block * kPairColumns, left = of.w.cols - k;
      auto& tiles = to.tile[r / kTileRows];
      const int64_t i = r % kTileRows;
      const char* bytes = static_cast<const char*>(later.bytes(ahead.block * kPairColumns));
#pragma GCC unroll 8
      for (int64_t line = 0; line < kPieceBlocks * kPairColumns * Row::kCodeBits / 8; line += 64) {
        __builtin_prefetch(bytes + line);
      }
      if constexpr (Row::kScaleGroup != 0) {
        if (ahead.block == 0) {
          for (int64_t s = 0; s < of.w.cols / Row::kScaleGroup; s += 64) __builtin_prefetch(later.scales + s);
        }
      }
      if (left >= kPieceBlocks * kPairColumns) {
#pragma GCC unroll 8
        for (int64_t b = 0; b < kPieceBlocks; ++b) native_store_pairs(tiles[b][i], from.at(k + b * kPairColumns));
        return;
      }
      int64_t b = 0;
      for (; (b + 1) * kPairColumns <= left; ++b) native_store_pairs(tiles[b][i], from.at(k + b * kPairColumns));
      const int64_t rest = left - b * kPairColumns;
      if (rest > 0) native_store_pairs(tiles[b][i], from.rest(k + b * kPairColumns, rest));
    }

    const TileDots& of;
    Piece piece, ahead;
    Panel& to;
    int64_t rows, row = 0;
  };

  NIBBLE_INLINE const uint32_t* activations(int64_t token_tile, int64_t block) const {
    if constexpr (kIsPrepared)
      return reinterpret_cast<const uint32_t*>(x.prepared) + (token_tile * blocks + block) * kTileRows * kTokens;
    else
      return packed + token_tile * blocks_at(block) * kTilePairs;
  }

  // The products of a piece with token tiles t .. t + kTokenTiles - 1; after each 32 columns `between`.
  template <int kTokenTiles, class F>
  NIBBLE_INLINE void multiply(const Panel& panel, Piece at, int64_t t, const F& between) {
    constexpr int64_t kStride = 4 * kTokens;
    const int64_t first = kIsPrepared ? 0 : at.row / kTileRows, here = blocks_at(at.block);
    const bool has_second = at.row + kTileRows < count;
    Sums(&upper)[kTokenTileLimit] = sums[first], (&lower)[kTokenTileLimit] = sums[first + 1];
    if (at.block == 0) {
      tile_zero<0>();
      tile_zero<1>();
      tile_zero<2>();
      tile_zero<3>();
    } else if (!kIsPrepared) {
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
      between();
    }
    if (kIsPrepared && at.block + here < blocks) return;
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
      const Sums(&of_row)[kTokenTileLimit] = sums[(kIsPrepared ? r - row : r) / kTileRows];
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

  static constexpr int64_t kTokenTileLimit = kTokens == 1 ? 1 : kIsPrepared ? 2 : kBlockTokens / kTileRows;
  static constexpr int64_t kRowTileLimit = kIsPrepared ? 2 : kBlockRows / kTileRows;

  const ops::WeightMatrix& w;
  const int64_t n, count;
  const Activations<Bf16>& x;
  const int64_t blocks;
  Panel panels[2];
  Sums sums[kRowTileLimit][kTokenTileLimit];
  alignas(64) uint32_t packed[kIsPrepared ? 1 : kTokenTileLimit * kPieceBlocks * kTilePairs];
};

template <class Row>
void tile_dots(const ops::WeightMatrix& w, int64_t n, int64_t count, const Activations<Bf16>& x, Block& out) {
  if (!x.is_prepared)
    TileDots<Row, kTileRows, false>(w, n, count, x).run(out);
  else if (x.tokens == 1)
    TileDots<Row, 1, true>(w, n, count, x).run(out);
  else
    TileDots<Row, kTileRows, true>(w, n, count, x).run(out);
}

}  // namespace nibble::cpu::NIBBLE_ISA
#endif
