// One UTF-8 character at a time, with the three ways it can end: whole, ill-formed, or cut short.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nibble::text {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8Status {
  kWhole,
  kIllFormed,  // length is that of the maximal subpart (Unicode 3.9, WHATWG): what one U+FFFD stands for
  kTruncated,  // well-formed so far, but the bytes end: length is all of them
};

struct Utf8Char {
  char32_t code_point;
  int32_t length;
  Utf8Status status;
};

Utf8Char decode_utf8(std::string_view bytes);  // the first character; bytes must not be empty
void append_utf8(char32_t code_point, std::string& out);
// Bytes of the longest prefix that is valid UTF-8; equals bytes.size() when all of it is.
int64_t valid_utf8_prefix(std::string_view bytes);

}  // namespace nibble::text
