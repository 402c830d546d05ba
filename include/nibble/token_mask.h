// What may constrain the tokens of a request: a grammar, a schema, a list of words.
#pragma once

#include <cstdint>
#include <span>

namespace nibble {

// One object a completion. The engine asks before it draws each token and tells what was drawn; both happen on the
// engine's thread, between steps, so neither may be slow.
class TokenMask {
 public:
  virtual ~TokenMask() = default;
  // Clears the bits of the ids that may not come next: bit i % 64 of word i / 64 stands for id i, and all of them come
  // in set. A mask that leaves none ends the completion with an error.
  virtual void restrict(std::span<uint64_t> allowed) = 0;
  virtual void accept(int32_t id) = 0;
};

}  // namespace nibble
