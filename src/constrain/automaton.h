// Runs a grammar over bytes and tokens: an automaton whose states are made as they are met, and kept.
//
// Where a text stands in a grammar is a set of places, each a state of a rule with what called that rule, and what
// called that. Stacks with the same top share it (a graph-structured stack), sets are kept once each, and so are the
// moves between them: after a while a byte costs one look into a table, however ambiguous the grammar. The set of
// allowed tokens is found by one walk over the vocabulary's tree, and kept with the set of places.
//
// Both can grow without bound, as JSON nests. So what is kept is limited: one store is dropped for a fresh one when it
// is full, and whoever still stands in the old one takes its own place along.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "constrain/grammar.h"
#include "constrain/token_trie.h"

namespace nibble::constrain {

// A place in a text: equal numbers are equal places.
using Place = int32_t;

class Store {
 public:
  static constexpr Place kDead = -1;

  // Both must outlive it.
  Store(const Grammar& grammar, const TokenTrie& trie);

  Place start();
  // Where a place of another store of the same grammar is here.
  Place import(const Store& other, Place place);
  Place after(Place place, int32_t symbol);
  // After an ordinary token, or one that stands for a symbol. kDead where it may not come.
  Place after_token(Place place, int32_t id);
  bool complete(Place place) const { return configurations_[static_cast<size_t>(place)].complete; }
  // The tokens that may come next, valid until the next call: bits of ids.
  std::span<const uint64_t> allowed(Place place);

  int64_t bytes() const { return bytes_; }
  int64_t places() const { return static_cast<int64_t>(configurations_.size()); }

 private:
  using Set = int32_t;
  struct Node {
    Grammar::State state;  // kBottom: nothing called the rule above
    Set below;
    bool operator==(const Node&) const = default;
  };
  struct SetInfo {
    int32_t begin, size;
    int32_t depth;  // of frames, the most
  };
  struct Configuration {
    Set set;
    bool complete;
  };
  static constexpr Grammar::State kBottom = -1;
  static constexpr int32_t kUnknown = -2;

  std::span<const Node> nodes(Set set) const {
    const SetInfo& s = sets_[static_cast<size_t>(set)];
    return std::span(nodes_).subspan(static_cast<size_t>(s.begin), static_cast<size_t>(s.size));
  }
  Set intern(std::span<const Node> nodes);
  Set unite(Set a, Set b);
  Set import_set(const Store& other, Set set, std::unordered_map<Set, Set>& known);
  // Adds to what is being gathered, and what follows from it without a symbol.
  void add(Grammar::State state, Set below);
  void close();
  Place gathered();
  Place move(Place place, int32_t symbol_class);
  Place after_plain(Place place);
  bool has_plain_room(Place place);
  void walk(Place place, std::span<uint64_t> out);

  const Grammar& grammar_;
  const TokenTrie& trie_;
  std::vector<Node> nodes_;
  std::vector<SetInfo> sets_;
  std::unordered_multimap<uint64_t, Set> by_hash_;
  std::vector<Configuration> configurations_;
  std::unordered_map<uint64_t, Place> by_set_;
  std::vector<int32_t> moves_;  // [places, classes]
  std::vector<std::unique_ptr<uint64_t[]>> masks_;
  std::vector<Place> plain_next_;
  int64_t bytes_ = 0;

  // What is being gathered.
  std::vector<Node> found_;
  std::vector<int32_t> found_at_;  // [states of the grammar], -1: not found
  std::vector<int32_t> open_;      // of found_, to be looked at
  bool complete_ = false;
  int64_t work_ = 0;  // of one walk, so that it has an end
  std::vector<Place> path_;
};

}  // namespace nibble::constrain
