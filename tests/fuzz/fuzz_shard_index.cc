// An index of any bytes is refused, or every entry has a shard, and every shard is a plain file name.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "checkpoint/index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble::checkpoint;
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const ShardIndex index = parse_index(text, static_cast<int64_t>(size), "fuzz");
    if (index.entries.empty()) std::abort();
    for (const IndexEntry& e : index.entries) {
      if (e.shard < 0 || e.shard >= static_cast<int32_t>(index.shards.size())) std::abort();
    }
    for (const std::string& shard : index.shards) {
      if (shard.empty() || shard.find('/') != std::string::npos || shard == "..") std::abort();
    }
  } catch (const nibble::Refusal&) {
  }
  return 0;
}
