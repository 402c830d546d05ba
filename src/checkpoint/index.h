// model.safetensors.index.json: which shard holds which tensor.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::checkpoint {

struct IndexEntry {
  std::string_view name;
  int32_t shard = 0;  // into ShardIndex::shards
};

struct ShardIndex {
  std::vector<std::string> shards;  // file names, in text order
  std::vector<IndexEntry> entries;
  std::deque<std::string> unescaped;  // names that had escapes; all others point into the text
};

// `readable` bytes from text.data() on may be read. Names point into `text`. Refuses shard names that leave the
// directory.
ShardIndex parse_index(std::string_view text, int64_t readable, const std::string& source);

}  // namespace nibble::checkpoint
