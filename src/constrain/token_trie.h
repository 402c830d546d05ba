// The vocabulary as a tree of bytes, so that one walk says of every token whether it may come.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace nibble::constrain {

class TokenTrie {
 public:
  // `tokens`: ids of ordinary tokens with their bytes, which are not empty. `controls`: ids that stand for the symbols
  // from kBytes on, in this order. `ends`: ids that may come where an answer is complete. All of them below `size`.
  TokenTrie(std::vector<std::pair<std::string_view, int32_t>> tokens, std::vector<int32_t> controls,
            std::vector<int32_t> ends, int64_t size);

  struct Node {      // in preorder
    int32_t token;   // that ends here, or -1
    int32_t behind;  // the next node that is not below this one
    uint16_t depth;  // from 1
    uint8_t byte;
    bool plain;  // every token that ends here or below is one of whole plain characters
  };
  std::span<const Node> nodes() const { return nodes_; }
  int32_t depth() const { return depth_; }
  // Bits of the tokens that are whole plain characters: those that stand for themselves in a JSON string.
  std::span<const uint64_t> plain() const { return plain_; }
  int32_t longest_plain() const { return longest_plain_; }  // bytes: at least as many as it has characters
  std::span<const int32_t> controls() const { return controls_; }
  std::span<const int32_t> ends() const { return ends_; }
  int64_t size() const { return size_; }
  size_t words() const { return static_cast<size_t>((size_ + 63) / 64); }

  // Bytes of an ordinary token; empty for others.
  std::string_view bytes(int32_t id) const { return bytes_[static_cast<size_t>(id)]; }

 private:
  std::vector<Node> nodes_;
  std::vector<std::string_view> bytes_;  // [size], of whoever gave them
  std::vector<uint64_t> plain_;
  std::vector<int32_t> controls_, ends_;
  int64_t size_ = 0;
  int32_t depth_ = 0, longest_plain_ = 0;
};

}  // namespace nibble::constrain
