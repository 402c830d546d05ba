// From what a request asks for to a mask that holds it.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>

#include "constrain/matcher.h"
#include "nibble/constraint.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace nibble::constrain {

// The vocabulary as the matchers walk it. `ends`: the tokens that end an answer.
std::shared_ptr<const TokenTrie> make_trie(const text::Tokenizer& tokenizer, std::vector<int32_t> ends);

// Throws Refusal for what cannot be compiled. `channel`: where the prompt leaves the model; of a chat the response and
// the calls are constrained, and calls of a chat only.
std::shared_ptr<Compiled> compile(const Constraint& constraint, text::Channel channel,
                                  std::shared_ptr<const TokenTrie> trie);

// Keeps what was compiled last, for the requests to come. From any thread.
class Compiler {
 public:
  static constexpr size_t kKept = 32;

  // `tokenizer` must outlive it.
  Compiler(const text::Tokenizer& tokenizer, std::vector<int32_t> ends)
      : tokenizer_(tokenizer), ends_(std::move(ends)) {}
  // A maker of masks, one for each completion. Throws Refusal.
  std::function<std::unique_ptr<TokenMask>()> compile(const Constraint& constraint, text::Channel channel);

 private:
  struct Entry {
    Constraint constraint;
    text::Channel channel;
    std::shared_ptr<Compiled> compiled;
  };

  const text::Tokenizer& tokenizer_;
  std::vector<int32_t> ends_;
  std::mutex mutex_;
  std::shared_ptr<const TokenTrie> trie_;  // made when it is first needed
  std::list<Entry> kept_;                  // the last used first
};

}  // namespace nibble::constrain
