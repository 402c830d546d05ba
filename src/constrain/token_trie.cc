#include "constrain/token_trie.h"

#include <algorithm>

#include "text/utf8.h"

namespace nibble::constrain {
namespace {

bool is_plain(char32_t c) { return c >= 0x20 && c != '"' && c != '\\'; }

bool all_plain(std::string_view bytes) {
  while (!bytes.empty()) {
    const text::Utf8Char c = text::decode_utf8(bytes);
    if (c.status != text::Utf8Status::kWhole || !is_plain(c.code_point)) return false;
    bytes.remove_prefix(static_cast<size_t>(c.length));
  }
  return true;
}

}  // namespace

TokenTrie::TokenTrie(std::vector<std::pair<std::string_view, int32_t>> tokens, std::vector<int32_t> controls,
                     std::vector<int32_t> ends, int64_t size)
    : bytes_(static_cast<size_t>(size)),
      plain_(static_cast<size_t>((size + 63) / 64)),
      controls_(std::move(controls)),
      ends_(std::move(ends)),
      size_(size) {
  std::sort(tokens.begin(), tokens.end());
  std::vector<int32_t> path;  // nodes of the token before, by depth
  const auto close = [&](size_t depth) {
    for (size_t d = depth; d < path.size(); ++d) {
      nodes_[static_cast<size_t>(path[d])].behind = static_cast<int32_t>(nodes_.size());
    }
    path.resize(depth);
  };
  std::string_view before;
  for (const auto& [bytes, id] : tokens) {
    bytes_[static_cast<size_t>(id)] = bytes;
    const bool plain = all_plain(bytes);
    if (plain) {
      plain_[static_cast<size_t>(id / 64)] |= uint64_t{1} << (id % 64);
      longest_plain_ = std::max(longest_plain_, static_cast<int32_t>(bytes.size()));
    }
    const size_t shared = static_cast<size_t>(
        std::mismatch(bytes.begin(), bytes.end(), before.begin(), before.end()).first - bytes.begin());
    close(shared);
    for (size_t d = shared; d < bytes.size(); ++d) {
      path.push_back(static_cast<int32_t>(nodes_.size()));
      nodes_.push_back({.token = -1,
                        .behind = 0,
                        .depth = static_cast<uint16_t>(d + 1),
                        .byte = static_cast<uint8_t>(bytes[d]),
                        .plain = true});
    }
    nodes_.back().token = id;
    depth_ = std::max(depth_, static_cast<int32_t>(bytes.size()));
    before = bytes;
    for (const int32_t node : path) nodes_[static_cast<size_t>(node)].plain &= plain;
  }
  close(0);
}

}  // namespace nibble::constrain
