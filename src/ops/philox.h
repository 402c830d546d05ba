// Philox4x32-10: a counter-based random generator (Salmon, Moraes, Dror and Shaw, SC11). A draw is a pure function of
// key and counter, so it needs no state and does not depend on who else draws.
#pragma once

#include <cstdint>

namespace nibble::ops {

struct PhiloxBlock {
  uint32_t word[4];
};

// Always inlined: kernels of every instruction set call it.
[[gnu::always_inline]] constexpr PhiloxBlock philox4x32_10(PhiloxBlock counter, uint32_t key0, uint32_t key1) {
  PhiloxBlock x = counter;
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * x.word[0], b = uint64_t{0xCD9E8D57u} * x.word[2];
    x = {{static_cast<uint32_t>(b >> 32) ^ x.word[1] ^ key0, static_cast<uint32_t>(b),
          static_cast<uint32_t>(a >> 32) ^ x.word[3] ^ key1, static_cast<uint32_t>(a)}};
    key0 += 0x9E3779B9u;  // the golden ratio, and sqrt(3) - 1
    key1 += 0xBB67AE85u;
  }
  return x;
}

// The draw of a request's seed at a position: uniform in [0, 1), 53 bits.
[[gnu::always_inline]] constexpr double uniform_draw(uint64_t seed, uint64_t position) {
  const PhiloxBlock x = philox4x32_10({{static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), 0, 0}},
                                      static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
  return static_cast<double>((uint64_t{x.word[0]} << 32 | x.word[1]) >> 11) * 0x1p-53;
}

}  // namespace nibble::ops
