#include "checkpoint/index.h"

#include <simdjson.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "base/error.h"
#include "checkpoint/json_input.h"

namespace nibble::checkpoint {
namespace {

namespace ondemand = simdjson::ondemand;

[[noreturn]] void refuse(const std::string& source, const std::string& seen, const std::string& rule) {
  throw Refusal({.what = source, .seen = seen, .rule = rule, .fix = "download the index again"});
}

class IndexParser {
 public:
  IndexParser(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  ShardIndex parse(int64_t readable) {
    const JsonInput input(text_, readable);
    ondemand::parser parser;
    bool found = false;
    try {
      ondemand::document document = parser.iterate(input.view());
      for (auto field : document.get_object()) {
        if (field.unescaped_key().value() != "weight_map") continue;
        if (found) refuse(source_, "weight_map twice", "an index has one weight_map");
        found = true;
        for (auto entry : field.value().get_object()) take_entry(input, entry);
      }
      if (!JsonInput::at_end(document))
        refuse(source_, "text after the index's object", "the index is one JSON object");
    } catch (const simdjson::simdjson_error& e) {
      refuse(source_, std::string("not valid JSON: ") + e.what(), "the index is one JSON object, in UTF-8");
    }
    if (!found) refuse(source_, "no weight_map", "the index maps each tensor's name to its shard: weight_map");
    if (out_.entries.empty()) refuse(source_, "an empty weight_map", "the index names at least one tensor");
    sort_shards();
    return std::move(out_);
  }

 private:
  void take_entry(const JsonInput& input, simdjson::simdjson_result<ondemand::field> entry) {
    IndexEntry e;
    e.name = input.key(entry, text_, out_.unescaped);
    e.shard = shard(entry.value().get_string());
    out_.entries.push_back(e);
  }

  int32_t shard(std::string_view file) {
    if (last_ >= 0 && out_.shards[static_cast<size_t>(last_)] == file) return last_;  // names come in runs
    const auto [it, fresh] = ids_.try_emplace(std::string(file), static_cast<int32_t>(out_.shards.size()));
    if (fresh) {
      if (file.empty() || file.front() == '.' || file.find('/') != std::string_view::npos ||
          file.find('\0') != std::string_view::npos) {
        refuse(source_, "a shard named \"" + std::string(file.substr(0, 200)) + '"',
               "a shard is a file of the same directory");
      }
      out_.shards.emplace_back(file);
    }
    return last_ = it->second;
  }

  // Text order, so that shard numbers do not depend on which tensor the index happens to name first.
  void sort_shards() {
    std::vector<int32_t> order(out_.shards.size()), rank(out_.shards.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return at(a) < at(b); });
    std::vector<std::string> sorted;
    for (size_t i = 0; i < order.size(); ++i) {
      rank[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
      sorted.push_back(at(order[i]));
    }
    out_.shards = std::move(sorted);
    for (IndexEntry& e : out_.entries) e.shard = rank[static_cast<size_t>(e.shard)];
  }
  const std::string& at(int32_t shard) const { return out_.shards[static_cast<size_t>(shard)]; }

  std::string_view text_;
  const std::string& source_;
  std::unordered_map<std::string, int32_t> ids_;
  int32_t last_ = -1;
  ShardIndex out_;
};

}  // namespace

ShardIndex parse_index(std::string_view text, int64_t readable, const std::string& source) {
  return IndexParser(text, source).parse(readable);
}

}  // namespace nibble::checkpoint
