// SHA-256 (FIPS 180-4): names for what an evaluation was made with. Not for secrets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace nibble::eval {

class Sha256 {
 public:
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text.data(), text.size()))); }
  // 64 hexadecimal digits; nothing may be added afterwards.
  std::string finish();

 private:
  void block(const std::byte* bytes);

  std::array<uint32_t, 8> state_ = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                                    0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};
  std::array<std::byte, 64> rest_{};
  uint64_t size_ = 0;
};

}  // namespace nibble::eval
