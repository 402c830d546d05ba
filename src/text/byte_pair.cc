#include "text/byte_pair.h"

#include <algorithm>

namespace nibble::text {

// Puts the pair (left, its right neighbour) on the heap if the vocabulary has it.
void BytePairEncoder::offer(int32_t left) {
  const int32_t right = parts_[left].next, sentinel = static_cast<int32_t>(piece_.size());
  if (right == sentinel) return;
  const int32_t start = parts_[left].start, length = end(right) - start;
  if (length > vocabulary_.longest()) return;
  const int32_t rank = vocabulary_.find(piece_.substr(start, length));
  if (rank < 0) return;
  ++steps_;
  heap_.push_back({rank, left, length});
  std::push_heap(heap_.begin(), heap_.end(), after);
}

void BytePairEncoder::encode(std::string_view piece, std::vector<int32_t>& ids) {
  if (piece.empty()) return;
  if (const int32_t whole = vocabulary_.find(piece); whole >= 0) return ids.push_back(whole);
  piece_ = piece;
  const auto size = static_cast<int32_t>(piece.size());
  parts_.resize(size + 1);
  for (int32_t i = 0; i <= size; ++i) parts_[i] = {i, i - 1, std::min(i + 1, size)};
  heap_.clear();
  for (int32_t i = 0; i < size; ++i) offer(i);
  while (!heap_.empty()) {
    const Pair pair = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), after);
    heap_.pop_back();
    Part& left = parts_[pair.left];
    // An absorbed part has start -1; a part that grew, or whose neighbour did, has another length by now.
    if (left.start < 0 || left.next == size || end(left.next) - left.start != pair.length) continue;
    Part& right = parts_[left.next];
    parts_[right.next].previous = pair.left;
    left.next = right.next;
    right.start = -1;
    offer(pair.left);
    if (left.previous >= 0) offer(left.previous);
  }
  for (int32_t part = 0; part != size; part = parts_[part].next) {
    const int32_t start = parts_[part].start;
    const std::string_view bytes = piece.substr(start, end(part) - start);
    ids.push_back(bytes.size() == 1 ? vocabulary_.single_byte(static_cast<uint8_t>(bytes[0]))
                                    : vocabulary_.find(bytes));
  }
}

}  // namespace nibble::text
