// How one slice of mla_attention's scratch is laid out: what the size and the CPU kernels agree on.
#pragma once

#include <cstdint>

#include "ops/sequences.h"

namespace nibble::ops {

// Offsets in floats. A tile is what one pass over the pages serves: sixteen queries in the absorbed form, which are
// heads of one row or of a few, and share the latents that are read; in the expanded form some rows of one head, which
// share the keys that are widened. Widths are rounded up to whole vectors.
struct MlaScratch {
  static constexpr int64_t kAbsorbedTile = 16, kAbsorbedRows = 4;  // queries, and at most so many rows
  static constexpr int64_t kExpandedRows = 32;

  int64_t queries = 0;  // tile x [query]
  int64_t scores = 0;   // tile x [64]
  int64_t parts = 0;    // tile x levels x [value | max, sum]: subtrees of pages not yet merged
  int64_t keys = 0;     // [64, R + P] or [64, C + P]: a page, widened
  int64_t values = 0;   // [64, V]     expanded form only
  int64_t latents = 0;  // [64, R]     expanded form only
  int64_t weight = 0;   // [16, R] rows of kv_b
  int64_t levels = 0;   // subtrees of 1, 2, 4, ... pages
  int64_t floats = 0;   // a whole slice

  [[gnu::always_inline]] static constexpr int64_t rounded(int64_t width) { return (width + 15) / 16 * 16; }
  // From one subtree to the next.
  [[gnu::always_inline]] static constexpr int64_t part_stride(int64_t width) { return rounded(width) + 16; }

  [[gnu::always_inline]] MlaScratch(int64_t latent, int64_t nope, int64_t shared, int64_t value, int64_t pages) {
    for (int64_t n = pages; n > 0; n /= 2) ++levels;
    const auto larger = [](int64_t a, int64_t b) __attribute__((always_inline)) { return a > b ? a : b; };
    const auto take = [this](int64_t count) __attribute__((always_inline)) {
      const int64_t at = floats;
      floats += rounded(count);  // a cache line
      return at;
    };
    const int64_t absorbed = rounded(latent + shared), expanded = rounded(nope + shared);
    queries = take(larger(kAbsorbedTile * absorbed, kExpandedRows * expanded));
    scores = take(kExpandedRows * kPageTokens);
    parts = take(levels * larger(kAbsorbedTile * part_stride(latent), kExpandedRows * part_stride(value)));
    keys = take(kPageTokens * larger(absorbed, expanded));
    values = take(kPageTokens * rounded(value));
    latents = take(kPageTokens * rounded(latent));
    weight = take(16 * rounded(latent));
  }
};

}  // namespace nibble::ops
