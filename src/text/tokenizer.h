// Kimi K3's tokenizer: `tiktoken.model` and `tokenizer_config.json` of a checkpoint directory, nothing else.
//
// Text never becomes a control id unless a caller asks for that by name (encode_with_control): the chat renderer emits
// control ids itself. No [BOS] is ever added. All functions are const and may be called from many threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/control_tokens.h"
#include "text/vocabulary.h"

namespace nibble::text {

class Tokenizer {
 public:
  // vocab_size is config.json's: ranks and 256 control ids. Refuses a directory whose files do not fit it.
  static Tokenizer load(const std::filesystem::path& directory, int64_t vocab_size);
  Tokenizer(Vocabulary vocabulary, ControlTokens control);

  // Valid UTF-8 to ids below the control ids; refuses other bytes.
  std::vector<int32_t> encode(std::string_view utf8) const;
  // The same, but the exact names of control tokens become their ids (`parse_special`), the longest name first.
  std::vector<int32_t> encode_with_control(std::string_view utf8) const;
  // Any bytes: the valid UTF-8 stretches as encode() does each, every other byte as its single-byte token.
  // decode(encode_bytes(x)) == x for every x, and encode_bytes(x) == encode(x) where encode takes x.
  std::vector<int32_t> encode_bytes(std::string_view bytes) const;

  int64_t vocab_size() const { return vocabulary_.size() + kControlTokens; }
  // Every id has bytes: a rank its token, a control id its name. Refuses ids outside the vocabulary.
  std::string_view bytes(int32_t id) const;
  std::string decode(std::span<const int32_t> ids) const;  // bytes in order; not always valid UTF-8 (see Utf8Stream)

  bool contains(int32_t id) const { return id >= 0 && id < vocab_size(); }
  bool is_control(int32_t id) const { return id >= vocabulary_.size() && id < vocab_size(); }
  std::optional<int32_t> control_id(std::string_view name) const { return control_.find(name); }
  const ControlTokens& control() const { return control_; }
  // Ids that end an answer: <|end_of_msg|> and [EOS] (the two published config files disagree), and those that only a
  // broken model samples, [PAD] and [UNK].
  std::vector<int32_t> stop_ids() const;

 private:
  Vocabulary vocabulary_;
  ControlTokens control_;
};

}  // namespace nibble::text
