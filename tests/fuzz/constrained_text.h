// What a client's constraint does to text that a model might write under it: the whole of the targets for schemas and
// for regular expressions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "constrain/compiler.h"

namespace nibble::constrain {

inline std::shared_ptr<const TokenTrie> bytes_alone() {
  static std::vector<std::string> bytes;
  std::vector<std::pair<std::string_view, int32_t>> tokens;
  for (int b = 0; b < 256; ++b) bytes.emplace_back(1, static_cast<char>(b));
  for (int b = 0; b < 256; ++b) tokens.emplace_back(bytes[static_cast<size_t>(b)], b);
  return std::make_shared<const TokenTrie>(std::move(tokens), std::vector{256, 257, 258}, std::vector{259}, 260);
}

// The constraint's text or the schema of a tool's arguments, a NUL, and a text. Compiling may refuse, and nothing else.
inline void constrain_text(Constraint constraint, text::Channel channel, const uint8_t* data, size_t size) {
  static const std::shared_ptr<const TokenTrie> trie = bytes_alone();
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = std::min(input.find('\0'), input.size());
  (constraint.calls ? constraint.calls->tools[0].parameters : constraint.text) = input.substr(0, cut);
  try {
    Matcher matcher(compile(constraint, channel, trie));
    std::vector<uint64_t> allowed(trie->words());
    for (size_t i = cut + 1; i < input.size(); ++i) {
      std::fill(allowed.begin(), allowed.end(), ~uint64_t{0});
      matcher.restrict(allowed);
      if (!matcher.advance(static_cast<uint8_t>(input[i]))) break;
    }
  } catch (const Refusal&) {
  }
}

}  // namespace nibble::constrain
