// A compiled constraint, and where a text stands in it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "constrain/automaton.h"
#include "constrain/grammar.h"
#include "constrain/token_trie.h"
#include "nibble/token_mask.h"

namespace nibble::constrain {

// Shared by all answers that it constrains, of any thread: what one has met, the others find.
class Compiled {
 public:
  // Of places and masks it keeps about `kept_bytes`: by default a few thousand masks of K3's vocabulary.
  Compiled(Grammar grammar, std::shared_ptr<const TokenTrie> trie, int64_t kept_bytes = int64_t{64} << 20);

 private:
  friend class Matcher;
  std::shared_ptr<Store> fresh_if_full(const std::shared_ptr<Store>& store);

  Grammar grammar_;
  std::shared_ptr<const TokenTrie> trie_;
  int64_t kept_bytes_;
  std::mutex mutex_;              // guards all stores
  std::shared_ptr<Store> store_;  // the one that places go to
};

// Where a text stands. A copy is a place to go back to: it costs nothing, whatever was written.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<Compiled> compiled);

  // Goes on by a token. False, and nothing changes, where it may not come.
  bool advance(int32_t id);
  // Clears the bits of the tokens that may not come.
  void restrict(std::span<uint64_t> allowed);
  bool complete() const;                 // the text may end here
  bool ended() const { return ended_; }  // and has

 private:
  std::shared_ptr<Compiled> compiled_;
  std::shared_ptr<Store> store_;  // that place_ is of
  Place place_ = 0;
  bool ended_ = false;
};

// A matcher as the engine asks for it.
std::unique_ptr<TokenMask> make_mask(std::shared_ptr<Compiled> compiled);

}  // namespace nibble::constrain
