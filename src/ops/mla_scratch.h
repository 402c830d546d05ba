// How one slice of mla_attention's scratch is laid out: what the size and the CPU kernels agree on.
#pragma once

#include <cstdint>

#include "ops/sequences.h"

namespace nibble::ops {

// Offsets in floats. A tile is what one pass over the pages serves: in the absorbed form a few heads of one row, which
// share the latents that are read; in the expanded form a few rows of one head, which share the keys that are widened.
struct MlaScratch {
  static constexpr int64_t kHeadTile = 4, kRowTile = 32;

  int64_t queries = 0;  // tile x [query]
  int64_t scores = 0;   // tile x [64]
  int64_t parts = 0;    // tile x levels x [value | max, sum]: subtrees of pages not yet merged, and the current page
  int64_t keys = 0;     // [64, C + P] expanded form only
  int64_t values = 0;   // [64, V]     expanded form only
  int64_t weight = 0;   // [R] one row of kv_b
  int64_t levels = 0;   // subtrees of 1, 2, 4, ... pages, and one for the page at work
  int64_t floats = 0;   // a whole slice

  [[gnu::always_inline]] MlaScratch(int64_t latent, int64_t nope, int64_t shared, int64_t value, int64_t pages) {
    levels = 1;
    for (int64_t n = pages; n > 0; n /= 2) ++levels;
    const auto larger = [](int64_t a, int64_t b) __attribute__((always_inline)) { return a > b ? a : b; };
    const auto take = [this](int64_t count) __attribute__((always_inline)) {
      const int64_t at = floats;
      floats += (count + 15) / 16 * 16;  // a cache line
      return at;
    };
    queries = take(larger(kHeadTile * (latent + shared), kRowTile * (nope + shared)));
    scores = take(kRowTile * kPageTokens);
    parts = take(levels * larger(kHeadTile * (latent + 2), kRowTile * (value + 2)));
    keys = take(kPageTokens * (nope + shared));
    values = take(kPageTokens * value);
    weight = take(latent);
  }
};

}  // namespace nibble::ops
