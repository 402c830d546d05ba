// A nondeterministic automaton over characters (code points): what a regular expression means, before it is put into a
// grammar as bytes: as they are, or as the inside of a JSON string or of an attribute.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "constrain/grammar.h"

namespace nibble::constrain {

inline constexpr char32_t kLastChar = 0x10FFFF;

struct CharRange {
  char32_t low, high;
};

// Sorted, apart, and without the surrogates, which are no characters.
std::vector<CharRange> normalized(std::vector<CharRange> ranges);
std::vector<CharRange> complement(std::vector<CharRange> ranges);

class CharAutomaton {
 public:
  using State = int32_t;
  struct Edge {
    CharRange range;  // low > high: an empty move
    State to;
  };

  State add_state();  // throws Refusal beyond kMaxStates
  void add(State from, CharRange range, State to) { edges_[static_cast<size_t>(from)].push_back({range, to}); }
  void add_empty(State from, State to) { add(from, {1, 0}, to); }
  int64_t states() const { return static_cast<int64_t>(edges_.size()); }

  State start = 0, end = 0;

  // The same, but only words of so many characters.
  CharAutomaton with_length(int64_t least, std::optional<int64_t> most) const;

  // Adds it to a grammar, between two states: each character as its UTF-8.
  void add_to(Grammar& grammar, Grammar::State from, Grammar::State to) const;
  // As the inside of a JSON string. Characters that have to be escaped are, in their shortest form; where any character
  // is allowed, `any` is called, a rule that knows every form.
  void add_to_json(Grammar& grammar, Grammar::State from, Grammar::State to, Grammar::Rule any) const;
  // As the value of an attribute of K3's markers.
  void add_to_attribute(Grammar& grammar, Grammar::State from, Grammar::State to) const;

 private:
  template <class AddRange>
  void add_with(Grammar& grammar, Grammar::State from, Grammar::State to, const AddRange& add_range) const;

  std::vector<std::vector<Edge>> edges_;
};

CharAutomaton any_characters();

// Moves for the UTF-8 of a range of characters.
void add_utf8(Grammar& grammar, Grammar::State from, CharRange range, Grammar::State to);

}  // namespace nibble::constrain
