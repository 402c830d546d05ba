// A grammar over symbols: bytes, and the control tokens that a chat's format is made of.
//
// Rules are nondeterministic automata that may call each other, as in a recursive transition network: a call runs the
// other rule and goes on behind it. Whoever builds one adds states and moves between them and then calls finish(),
// which throws out every state that no finite text leads out of, so that what is begun can always be completed, and
// refuses grammars in which that leaves nothing, or a rule that calls itself before it has taken a symbol.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace nibble::constrain {

// Symbols: 0 to 255 are bytes, then come control tokens in the order that TokenTrie has them.
inline constexpr int32_t kBytes = 256;

inline constexpr int64_t kMaxStates = int64_t{1} << 17;  // of a grammar: above that it is refused
inline constexpr int32_t kMaxFrames = 128;               // calls that are open at once: deeper ones are not allowed

class Grammar {
 public:
  using State = int32_t;
  using Rule = int32_t;

  State add_state();  // throws Refusal beyond kMaxStates
  Rule add_rule();
  State start(Rule rule) const { return rules_[static_cast<size_t>(rule)].start; }
  State end(Rule rule) const { return rules_[static_cast<size_t>(rule)].end; }

  void add_symbols(State from, int32_t low, int32_t high, State to);
  void add_text(State from, std::string_view bytes, State to);  // one after the other
  void add_empty(State from, State to);
  void add_call(State from, Rule rule, State to);

  // Nothing may be added afterwards. Throws Refusal.
  void finish(Rule root);

  // What follows is for who runs a finished grammar.
  enum class Kind : uint8_t { kSymbols, kEmpty, kCall };
  struct Move {
    Kind kind;
    int32_t low = 0, high = 0;  // symbols; of a call the rule is `low`
    State to = 0;
  };
  std::span<const Move> moves(State state) const {
    const auto s = static_cast<size_t>(state);
    return std::span(moves_).subspan(static_cast<size_t>(first_[s]), static_cast<size_t>(first_[s + 1] - first_[s]));
  }
  bool ends_rule(State state) const { return ends_rule_[static_cast<size_t>(state)] != 0; }
  // Frames that the rest of this state's rule needs at least; kNever where it has no end.
  int32_t frames_needed(State state) const { return frames_needed_[static_cast<size_t>(state)]; }
  static constexpr int32_t kNever = INT32_MAX;

  Rule root() const { return root_; }
  int64_t states() const { return static_cast<int64_t>(ends_rule_.size()); }
  // Symbols that no move tells apart are of one class.
  int32_t classes() const { return classes_; }
  int32_t class_of(int32_t symbol) const { return class_of_[static_cast<size_t>(symbol)]; }
  int32_t symbols() const { return static_cast<int32_t>(class_of_.size()); }
  int32_t example_of(int32_t symbol_class) const { return example_of_[static_cast<size_t>(symbol_class)]; }

 private:
  struct Ends {
    State start, end;
  };
  struct Added {
    State from;
    Move move;
  };
  void measure();
  void pack();
  void refuse_left_recursion() const;
  void classify();

  std::vector<Ends> rules_;
  std::vector<Added> added_;  // until finish()
  std::vector<Move> moves_;
  std::vector<int32_t> first_;
  std::vector<uint8_t> ends_rule_;
  std::vector<int32_t> frames_needed_;
  std::vector<int32_t> class_of_, example_of_;
  int32_t classes_ = 0;
  Rule root_ = -1;
};

}  // namespace nibble::constrain
