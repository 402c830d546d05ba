// Matrix tiles (AMX): eight registers of sixteen rows of 64 bytes, which a thread sets up before it uses them.
//
// Written as assembly, for the compilers' own forms take the number of a tile as text and, in gcc 12, do not say that
// they read and write memory.
#pragma once

#include "base/matrix_tiles.h"
#include "cpu/kernels/vec.h"

#ifdef NIBBLE_TILES
namespace nibble::cpu::NIBBLE_ISA {

constexpr int64_t kTileRows = 16;

// While it lives, tiles are as products of sixteen weight rows with kTokens activations need them: 0 to 3 for sums, 4
// and 5 for weights, 6 and 7 for activations.
template <int64_t kTokens>
class TilesForUse {
 public:
  NIBBLE_INLINE TilesForUse() {
    TileConfig config = {.palette = 1};
    for (int i = 0; i < 8; ++i) {
      config.row_bytes[i] = i == 4 || i == 5 ? 64 : 4 * kTokens;
      config.rows[i] = kTileRows;
    }
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
  NIBBLE_INLINE ~TilesForUse() { asm volatile("tilerelease"); }
  TilesForUse(const TilesForUse&) = delete;
  TilesForUse& operator=(const TilesForUse&) = delete;
};

template <int kTile>
NIBBLE_INLINE void tile_zero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
// Rows `stride` bytes apart.
template <int kTile>
NIBBLE_INLINE void tile_load(const void* p, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(p), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
NIBBLE_INLINE void tile_store(void* p, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(p), "r"(stride), "i"(kTile) : "memory");
}
// kSum += kWeights * kActivations, all pairs of sixteen: the even columns of 32 in one chain from zero, the odd ones in
// another, then both to the sum. fp32, subnormals as zero.
template <int kSum, int kWeights, int kActivations>
NIBBLE_INLINE void tile_multiply() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kWeights), "i"(kActivations));
}

}  // namespace nibble::cpu::NIBBLE_ISA
#endif
