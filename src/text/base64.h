// Strict base64 (RFC 4648 section 4): padded, nothing but the alphabet, unused bits zero.
#pragma once

#include <string>
#include <string_view>

namespace nibble::text {

bool decode_base64(std::string_view encoded, std::string& bytes);  // false: not base64; bytes are then unspecified

}  // namespace nibble::text
