#include "text/base64.h"

#include <cstdint>

namespace nibble::text {
namespace {

int32_t sextet(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

}  // namespace

bool decode_base64(std::string_view encoded, std::string& bytes) {
  bytes.clear();
  if (encoded.size() % 4 != 0) return false;
  for (size_t i = 0; i < encoded.size(); i += 4) {
    const bool last = i + 4 == encoded.size();
    const int padding = last && encoded[i + 3] == '=' ? (encoded[i + 2] == '=' ? 2 : 1) : 0;
    uint32_t bits = 0;
    for (size_t j = 0; j < 4; ++j) {
      const int32_t value = static_cast<int>(j) < 4 - padding ? sextet(encoded[i + j]) : 0;
      if (value < 0) return false;
      bits = bits << 6 | static_cast<uint32_t>(value);
    }
    const uint32_t unused = padding == 0 ? 0 : padding == 1 ? 0xFF : 0xFFFF;
    if ((bits & unused) != 0) return false;
    for (int j = 0; j < 3 - padding; ++j) bytes.push_back(static_cast<char>(bits >> (16 - 8 * j) & 0xFF));
  }
  return true;
}

}  // namespace nibble::text
