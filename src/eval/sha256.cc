#include "eval/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace nibble::eval {
namespace {

constexpr uint32_t kRounds[64] = {
    0x428A2F98, 0x71374491, 0xB5C0FBCF, 0xE9B5DBA5, 0x3956C25B, 0x59F111F1, 0x923F82A4, 0xAB1C5ED5,
    0xD807AA98, 0x12835B01, 0x243185BE, 0x550C7DC3, 0x72BE5D74, 0x80DEB1FE, 0x9BDC06A7, 0xC19BF174,
    0xE49B69C1, 0xEFBE4786, 0x0FC19DC6, 0x240CA1CC, 0x2DE92C6F, 0x4A7484AA, 0x5CB0A9DC, 0x76F988DA,
    0x983E5152, 0xA831C66D, 0xB00327C8, 0xBF597FC7, 0xC6E00BF3, 0xD5A79147, 0x06CA6351, 0x14292967,
    0x27B70A85, 0x2E1B2138, 0x4D2C6DFC, 0x53380D13, 0x650A7354, 0x766A0ABB, 0x81C2C92E, 0x92722C85,
    0xA2BFE8A1, 0xA81A664B, 0xC24B8B70, 0xC76C51A3, 0xD192E819, 0xD6990624, 0xF40E3585, 0x106AA070,
    0x19A4C116, 0x1E376C08, 0x2748774C, 0x34B0BCB5, 0x391C0CB3, 0x4ED8AA4A, 0x5B9CCA4F, 0x682E6FF3,
    0x748F82EE, 0x78A5636F, 0x84C87814, 0x8CC70208, 0x90BEFFFA, 0xA4506CEB, 0xBEF9A3F7, 0xC67178F2};

uint32_t big_endian(const std::byte* p) {
  return std::to_integer<uint32_t>(p[0]) << 24 | std::to_integer<uint32_t>(p[1]) << 16 |
         std::to_integer<uint32_t>(p[2]) << 8 | std::to_integer<uint32_t>(p[3]);
}

}  // namespace

void Sha256::block(const std::byte* bytes) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) w[i] = big_endian(bytes + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t b = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + a + w[i - 7] + b;
  }
  std::array<uint32_t, 8> s = state_;
  for (int i = 0; i < 64; ++i) {
    const uint32_t e = std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25);
    const uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
    const uint32_t first = s[7] + e + choice + kRounds[i] + w[i];
    const uint32_t a = std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22);
    const uint32_t second = a + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    std::rotate(s.begin(), s.end() - 1, s.end());
    s[4] += first;
    s[0] = first + second;
  }
  for (size_t i = 0; i < 8; ++i) state_[i] += s[i];
}

void Sha256::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t held = size_ % 64;
    const size_t taken = std::min(bytes.size(), 64 - held);
    std::memcpy(rest_.data() + held, bytes.data(), taken);
    bytes = bytes.subspan(taken);
    size_ += taken;
    if (size_ % 64 == 0) block(rest_.data());
  }
}

std::string Sha256::finish() {
  const uint64_t bits = size_ * 8;
  const std::byte one{0x80}, zero{0};
  add({&one, 1});
  while (size_ % 64 != 56) add({&zero, 1});
  for (int shift = 56; shift >= 0; shift -= 8) {
    const auto byte = static_cast<std::byte>(bits >> shift & 0xFF);
    add({&byte, 1});
  }
  std::string out;
  for (const uint32_t word : state_) {
    for (int shift = 28; shift >= 0; shift -= 4) out += "0123456789abcdef"[word >> shift & 15];
  }
  return out;
}

}  // namespace nibble::eval
