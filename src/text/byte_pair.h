// Byte-pair merging by rank, as tiktoken does it: a piece to token ids.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace nibble::text {

// If the whole piece is a token, that is its encoding. Otherwise single bytes are joined, always the adjacent pair
// whose concatenation has the lowest rank (the leftmost of equals), until no pair is in the vocabulary. A heap over a
// linked list makes that n log n, so a long run of one character costs no more than prose; steps() counts for the test
// of it.
class BytePairEncoder {
 public:
  explicit BytePairEncoder(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}
  void encode(std::string_view piece, std::vector<int32_t>& ids);  // appends
  int64_t steps() const { return steps_; }                         // heap entries made, over all calls

 private:
  struct Part {
    int32_t start, previous, next;
  };
  struct Pair {
    int32_t rank, left, length;  // length in bytes tells a stale pair from one that still stands
  };
  static bool after(const Pair& a, const Pair& b) { return a.rank != b.rank ? a.rank > b.rank : a.left > b.left; }
  void offer(int32_t left);
  int32_t end(int32_t part) const { return parts_[parts_[part].next].start; }

  const Vocabulary& vocabulary_;
  std::string_view piece_;
  std::vector<Part> parts_;  // one a byte and a sentinel; a part keeps its index, its right neighbour is absorbed
  std::vector<Pair> heap_;
  int64_t steps_ = 0;
};

}  // namespace nibble::text
