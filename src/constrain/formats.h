// `format` of JSON schema, as regular expressions.
#pragma once

#include <optional>
#include <string_view>

namespace nibble::constrain {

// The whole string of that format; nothing for a format that is not known here.
std::optional<std::string_view> format_pattern(std::string_view name);
const char* format_names();  // for a refusal

}  // namespace nibble::constrain
