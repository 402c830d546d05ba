// The 256 ids after the ranks: their names from `tokenizer_config.json`, and those that nibble gives a meaning.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace nibble::text {

inline constexpr int64_t kControlTokens = 256;

class ControlTokens {
 public:
  // Parses the file's text. Ids without a name in it are `<|reserved_token_ID|>`. Refuses files in which K3's own names
  // are missing: K2's tokenizer has the same ids under other names, loads, and answers rubbish.
  static ControlTokens parse(std::string_view json, int32_t first_id);
  ControlTokens(ControlTokens&&) = default;  // not copied: ids_ points into names_
  ControlTokens& operator=(ControlTokens&&) = default;

  int32_t first_id() const { return first_id_; }
  const std::string& name(int32_t id) const { return names_[id - first_id_]; }
  std::optional<int32_t> find(std::string_view name) const;
  // The longest control name that text starts with, or nothing.
  std::optional<int32_t> longest_prefix(std::string_view text) const;

  // Structure never depends on a token's "special" flag: the published file flags three of these as ordinary.
  int32_t open = -1, close = -1, sep = -1, end_of_message = -1, eos = -1;
  std::optional<int32_t> pad, unknown;  // sampled only by a broken model

 private:
  ControlTokens() = default;

  int32_t first_id_ = 0;
  std::vector<std::string> names_;
  std::unordered_map<std::string_view, int32_t> ids_;  // keys point into names_
  std::vector<size_t> lengths_;                        // distinct lengths of names, longest first
  bool starts_a_name_[256] = {};
};

}  // namespace nibble::text
