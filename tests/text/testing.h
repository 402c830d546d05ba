// What the text tests share: the bundled tokenizer, seeded random strings, the four parts of a refusal.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace nibble::text::testing {

inline std::string source_path(const std::string& relative) { return std::string(NIBBLE_SOURCE_DIR) + "/" + relative; }

inline std::string read(const std::string& relative) {
  std::ifstream file(source_path(relative), std::ios::binary);
  EXPECT_TRUE(file.good()) << relative;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline const Tokenizer& tiny() {
  static const Tokenizer tokenizer = Tokenizer::load(source_path("models/k3-tiny"), 2048);
  return tokenizer;
}

// Text that finds faults: letters of several scripts and cases, marks, Han of every category, digits, spaces of every
// kind, joiners, contractions, and whole control-token names.
inline std::string random_text(std::mt19937_64& random, int64_t characters) {
  static const std::vector<std::string> kParts = {"a",
                                                  "b",
                                                  "Z",
                                                  "Q",
                                                  "\xC3\xA9",
                                                  "\xC3\x89",
                                                  "\xC7\x85",
                                                  "\xC5\xBF",
                                                  "'s",
                                                  "'S",
                                                  "'\xC5\xBF",
                                                  "'t",
                                                  "'re",
                                                  "'LL",
                                                  "'ve",
                                                  "'m",
                                                  "'d",
                                                  "'",
                                                  "0",
                                                  "7",
                                                  "12345",
                                                  "\xC2\xBD",
                                                  "\xD9\xA3",
                                                  " ",
                                                  "  ",
                                                  "   ",
                                                  "\n",
                                                  "\r\n",
                                                  "\t",
                                                  "\xC2\x85",
                                                  "\xC2\xA0",
                                                  "\xE1\x9A\x80",
                                                  "\xE1\xA0\x8E",
                                                  "\xE2\x80\x83",
                                                  "\xE2\x80\xA8",
                                                  "\xE3\x80\x80",
                                                  "\x1C",
                                                  "\x1F",
                                                  "!",
                                                  ",",
                                                  "()",
                                                  "#",
                                                  "=\"",
                                                  "\xE4\xB8\xAD",
                                                  "\xE6\x96\x87",
                                                  "\xE6\x97\xA5",
                                                  "\xE3\x80\x81",
                                                  "\xE3\x80\x82",
                                                  "\xE3\x80\x85",
                                                  "\xE3\x80\x87",
                                                  "\xE3\x80\xA1",
                                                  "\xE2\xBA\x80",
                                                  "\xE3\x83\x86",
                                                  "\xE3\x82\xB9",
                                                  "\xEC\x95\x88",
                                                  "\xE0\xB8\x81",
                                                  "\xE0\xB8\xB4",
                                                  "\xCC\x81",
                                                  "\xE2\x83\x9D",
                                                  "\xEF\xB8\x8F",
                                                  "\xE2\x80\x8D",
                                                  "\xF0\x9F\x91\xA9",
                                                  "\xF0\x9F\x92\xBB",
                                                  "\xF0\xA0\x80\x80",
                                                  "\xF0\x96\xBF\xB0",
                                                  "\xCA\xB0",
                                                  "\xCA\x95",
                                                  "\xD0\x96",
                                                  "\xD0\xB6",
                                                  "\xD7\x90",
                                                  "\xD8\xB9",
                                                  "<|open|>",
                                                  "<|sep|>",
                                                  "<|end_of_msg|>",
                                                  "[EOS]",
                                                  "<|reserved_token_1801|>",
                                                  "word",
                                                  "Word",
                                                  "WORD"};
  std::string text;
  for (int64_t i = 0; i < characters; ++i) {
    if (random() % 16 == 0) {  // any code point but a surrogate
      auto c = static_cast<char32_t>(random() % 0x110000);
      if (random() % 2 == 0) c %= 0x3000;
      append_utf8(c >= 0xD800 && c < 0xE000 ? U'x' : c, text);
    } else {
      text += kParts[random() % kParts.size()];
    }
  }
  return text;
}

inline std::string random_bytes(std::mt19937_64& random, int64_t size) {
  std::string bytes;
  for (int64_t i = 0; i < size; ++i) bytes.push_back(static_cast<char>(random() % 4 == 0 ? random() % 128 : random()));
  return bytes;
}

// The text of the refusal that `call` ends in.
template <typename Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Refusal& refused) {
    return refused.what();
  }
  return "not refused";
}

}  // namespace nibble::text::testing
