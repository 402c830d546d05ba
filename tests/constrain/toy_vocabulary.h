// A vocabulary for tests: every byte, some longer tokens, three markers and an end.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "constrain/compiler.h"
#include "constrain/matcher.h"

namespace nibble::constrain {

class ToyVocabulary {
 public:
  // Beside the bytes `extra` tokens, pieces of JSON and of text, some of them cut within a character.
  explicit ToyVocabulary(int extra = 400, uint64_t seed = 1) {
    for (int b = 0; b < 256; ++b) tokens_.emplace_back(1, static_cast<char>(b));
    std::mt19937_64 random(seed);
    static const std::vector<std::string> kPieces = {
        "{\"",   "\":",  "\": ", "\", \"", "\"}",      "},",       "}]",   "[",
        "]",     "[{",   ", ",   "\n",     "\n  ",     "    ",     "true", "false",
        "null",  "0",    "12",   "-1",     ".5",       "e1",       "\\n",  "\\\"",
        "\\u00", "abc",  "na",   "me",     "\xC3\xA9", "\xE4\xBD", "\xA0", "\xF0\x9F\x98\x80",
        "d83d",  " the", "\xC3"};
    for (int i = 0; i < extra; ++i) {
      std::string token;
      for (uint64_t n = 1 + random() % 3; n > 0; --n) token += kPieces[random() % kPieces.size()];
      if (std::find(tokens_.begin(), tokens_.end(), token) == tokens_.end()) tokens_.push_back(token);
    }
    std::vector<std::pair<std::string_view, int32_t>> list;
    for (size_t i = 0; i < tokens_.size(); ++i) list.emplace_back(tokens_[i], static_cast<int32_t>(i));
    const auto first = static_cast<int32_t>(tokens_.size());
    trie_ = std::make_shared<const TokenTrie>(std::move(list), std::vector{first, first + 1, first + 2},
                                              std::vector{first + 3}, first + 5);
  }

  const std::shared_ptr<const TokenTrie>& trie() const { return trie_; }
  const std::string& bytes(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  int32_t ordinary() const { return static_cast<int32_t>(tokens_.size()); }
  int32_t open() const { return ordinary(); }
  int32_t close() const { return ordinary() + 1; }
  int32_t separator() const { return ordinary() + 2; }
  int32_t end() const { return ordinary() + 3; }
  size_t words() const { return trie_->words(); }

  std::shared_ptr<Compiled> compile(Constraint::Kind kind, std::string text,
                                    text::Channel channel = text::Channel::kNone) const {
    return constrain::compile({kind, std::move(text)}, channel, trie_);
  }

 private:
  std::vector<std::string> tokens_;
  std::shared_ptr<const TokenTrie> trie_;
};

// Whether a text fits as a whole, byte by byte.
inline bool fits(const std::shared_ptr<Compiled>& compiled, std::string_view text) {
  Matcher matcher(compiled);
  for (const char byte : text) {
    if (!matcher.advance(static_cast<uint8_t>(byte))) return false;
  }
  return matcher.complete();
}

}  // namespace nibble::constrain
