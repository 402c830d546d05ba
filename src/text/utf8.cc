#include "text/utf8.h"

#include <algorithm>

namespace nibble::text {
namespace {

// What may follow a lead byte: how many bytes, and the range of the first (the others are 80..BF).
struct Lead {
  int32_t following;
  uint8_t low, high;
};

Lead lead(uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};  // below: overlong
  if (byte == 0xED) return {2, 0x80, 0x9F};  // above: surrogates
  if (byte >= 0xE1 && byte <= 0xEF) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3, 0x80, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};  // above: past U+10FFFF
  return {0, 0, 0};
}

}  // namespace

Utf8Char decode_utf8(std::string_view bytes) {
  const auto first = static_cast<uint8_t>(bytes[0]);
  if (first < 0x80) return {first, 1, Utf8Status::kWhole};
  const Lead expect = lead(first);
  if (expect.following == 0) return {0, 1, Utf8Status::kIllFormed};
  auto code_point = static_cast<char32_t>(first & (0x3F >> expect.following));
  const auto available = static_cast<int32_t>(std::min<size_t>(bytes.size(), 4));
  for (int32_t i = 1; i <= expect.following; ++i) {
    if (i == available) return {0, i, Utf8Status::kTruncated};
    const auto byte = static_cast<uint8_t>(bytes[i]);
    const bool fits = i == 1 ? byte >= expect.low && byte <= expect.high : (byte & 0xC0) == 0x80;
    if (!fits) return {0, i, Utf8Status::kIllFormed};
    code_point = code_point << 6 | (byte & 0x3F);
  }
  return {code_point, expect.following + 1, Utf8Status::kWhole};
}

void append_utf8(char32_t code_point, std::string& out) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) return put(code_point);
  if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
  } else {
    if (code_point < 0x10000) {
      put(0xE0 | code_point >> 12);
    } else {
      put(0xF0 | code_point >> 18);
      put(0x80 | (code_point >> 12 & 0x3F));
    }
    put(0x80 | (code_point >> 6 & 0x3F));
  }
  put(0x80 | (code_point & 0x3F));
}

int64_t valid_utf8_prefix(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    const Utf8Char c = decode_utf8(bytes.substr(at));
    if (c.status != Utf8Status::kWhole) break;
    at += c.length;
  }
  return static_cast<int64_t>(at);
}

}  // namespace nibble::text
