// Which rows of a step belong to which sequence. Prompt chunks, single tokens and drafts are all rows.
#pragma once

#include <cstdint>

#include "base/view.h"

namespace nibble::ops {

// S sequences, T rows; sequence s owns rows row_begin[s] .. row_begin[s + 1] - 1, at consecutive positions. No two
// sequences of a step share a slot or a page that either writes. Device memory.
struct Sequences {
  View1<const int32_t> row_begin;     // [S + 1], ascending, row_begin[0] = 0, row_begin[S] = T; empty ones are legal
  View1<const int32_t> position;      // [S] of the sequence's first row; positions count from 0
  View1<const int32_t> slot;          // [S] index into the state pools
  View1<const int32_t> row_sequence;  // [T] the inverse of row_begin
  View2<const int32_t> pages;         // [S, P] page p of sequence s holds positions 64 p .. 64 p + 63
};

constexpr int64_t kPageTokens = 64;     // positions a page of MLA latents
constexpr int64_t kSegmentTokens = 16;  // positions a KDA segment: e^(5 * 16) fits fp32, see kda_rows.h

}  // namespace nibble::ops
