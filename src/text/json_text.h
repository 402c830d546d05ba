// JSON as text: what the chat format needs of it without building values, so that literals survive as they were typed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::text {

inline constexpr int64_t kMaxJsonDepth = 128;

struct JsonMember {
  std::string key;           // decoded
  std::string_view literal;  // the value as it stands in the text
  const char* type;          // string | number | boolean | null | object | array
};

// One JSON value at the start of text (after white space), strictly by RFC 8259 and at most kMaxJsonDepth deep; returns
// its literal, or nothing.
std::optional<std::string_view> json_literal(std::string_view text);
bool is_json(std::string_view text);  // one value and white space, nothing else
// The members of an object at the start of text, or nothing if there is no well-formed object. What follows the object
// is ignored. A repeated key keeps its first place and takes its last value, as parsers do.
std::optional<std::vector<JsonMember>> json_members(std::string_view text);
std::string json_decode_string(std::string_view literal);  // a literal that json_literal accepted

// Appends text as the inside of a JSON string: \" \\ and all of U+0000..U+001F escaped, everything else as it is.
void append_json_escaped(std::string_view text, std::string& out);
std::string json_quoted(std::string_view text);

}  // namespace nibble::text
