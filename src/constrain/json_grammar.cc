#include "constrain/json_grammar.h"

#include "constrain/char_automaton.h"

namespace nibble::constrain {
namespace {

constexpr int kMaxIndentation = 40;  // ten levels of four

// A chain of moves; each step says what it adds.
class Path {
 public:
  Path(Grammar& grammar, Grammar::State from) : g_(grammar), at_(from) {}
  Path& text(std::string_view bytes) {
    const Grammar::State to = g_.add_state();
    g_.add_text(at_, bytes, to);
    at_ = to;
    return *this;
  }
  Path& of(std::initializer_list<std::pair<char, char>> ranges) {
    const Grammar::State to = g_.add_state();
    for (const auto& [low, high] : ranges) g_.add_symbols(at_, low, high, to);
    at_ = to;
    return *this;
  }
  Path& hex() { return of({{'0', '9'}, {'a', 'f'}, {'A', 'F'}}); }
  Path& call(Grammar::Rule rule) {
    const Grammar::State to = g_.add_state();
    g_.add_call(at_, rule, to);
    at_ = to;
    return *this;
  }
  void to(Grammar::State state) { g_.add_empty(at_, state); }
  Grammar::State at() const { return at_; }

 private:
  Grammar& g_;
  Grammar::State at_;
};

void add_space(Grammar& g, Grammar::Rule rule) {
  g.add_empty(g.start(rule), g.end(rule));
  g.add_symbols(g.start(rule), ' ', ' ', g.end(rule));
  Path line(g, g.start(rule));
  line.text("\n").to(g.end(rule));
  for (int i = 0; i < kMaxIndentation; ++i) line.of({{' ', ' '}, {'\t', '\t'}}).to(g.end(rule));
}

// Half of a surrogate pair is no character, so escapes of those come in twos.
void add_character(Grammar& g, Grammar::Rule rule) {
  const Grammar::State from = g.start(rule), to = g.end(rule);
  add_utf8(g, from, {0x20, '"' - 1}, to);
  add_utf8(g, from, {'"' + 1, '\\' - 1}, to);
  add_utf8(g, from, {'\\' + 1, kLastChar}, to);
  const Grammar::State escape = Path(g, from).text("\\").at();
  for (const char c : {'"', '\\', '/', 'b', 'f', 'n', 'r', 't'}) g.add_symbols(escape, c, c, to);
  const Grammar::State unicode = Path(g, escape).text("u").at();
  Path(g, unicode).of({{'0', '9'}, {'a', 'c'}, {'A', 'C'}, {'e', 'f'}, {'E', 'F'}}).hex().hex().hex().to(to);
  const Grammar::State d = Path(g, unicode).of({{'d', 'd'}, {'D', 'D'}}).at();
  Path(g, d).of({{'0', '7'}}).hex().hex().to(to);
  Path(g, d)
      .of({{'8', '9'}, {'a', 'b'}, {'A', 'B'}})
      .hex()
      .hex()
      .text("\\u")
      .of({{'d', 'd'}, {'D', 'D'}})
      .of({{'c', 'f'}, {'C', 'F'}})
      .hex()
      .hex()
      .to(to);
}

void add_string(Grammar& g, Grammar::Rule rule, Grammar::Rule character) {
  const Grammar::State inside = Path(g, g.start(rule)).text("\"").at();
  g.add_call(inside, character, inside);
  g.add_symbols(inside, '"', '"', g.end(rule));
}

void add_number(Grammar& g, Grammar::Rule rule) {
  const Grammar::State unsigned_part = g.add_state(), whole = g.add_state(), fraction = g.add_state();
  g.add_empty(g.start(rule), unsigned_part);
  g.add_symbols(g.start(rule), '-', '-', unsigned_part);
  g.add_symbols(unsigned_part, '0', '0', whole);
  const auto digits = [&](Path path, int most, Grammar::State to) {
    path.to(to);
    for (int i = 1; i < most; ++i) path.of({{'0', '9'}}).to(to);
  };
  digits(Path(g, unsigned_part).of({{'1', '9'}}), 18, whole);
  g.add_empty(whole, fraction);
  digits(Path(g, whole).text(".").of({{'0', '9'}}), 17, fraction);
  g.add_empty(fraction, g.end(rule));
  const Grammar::State exponent = Path(g, fraction).of({{'e', 'e'}, {'E', 'E'}}).at();
  const Grammar::State behind_sign = Path(g, exponent).of({{'+', '+'}, {'-', '-'}}).at();
  g.add_empty(exponent, behind_sign);
  digits(Path(g, behind_sign).of({{'0', '9'}}), 2, g.end(rule));
}

// open [ item { , item } ] close
template <class AddItem>
void add_list(Grammar& g, Grammar::Rule rule, const JsonRules& rules, char open, char close, const AddItem& add_item) {
  const Grammar::State item = Path(g, g.start(rule)).text({&open, 1}).call(rules.space).at();
  const Grammar::State behind = g.add_state();
  g.add_symbols(item, close, close, g.end(rule));
  const Grammar::State begin = g.add_state();
  g.add_empty(item, begin);
  add_item(begin, behind);
  Path(g, behind).text(",").call(rules.space).to(begin);
  Path(g, behind).call(rules.space).text({&close, 1}).to(g.end(rule));
}

}  // namespace

JsonRules::JsonRules(Grammar& g)
    : space(g.add_rule()),
      character(g.add_rule()),
      string(g.add_rule()),
      number(g.add_rule()),
      object(g.add_rule()),
      array(g.add_rule()),
      value(g.add_rule()) {
  add_space(g, space);
  add_character(g, character);
  add_string(g, string, character);
  add_number(g, number);
  add_list(g, array, *this, '[', ']', [&](Grammar::State from, Grammar::State to) { g.add_call(from, value, to); });
  add_list(g, object, *this, '{', '}', [&](Grammar::State from, Grammar::State to) {
    g.add_call(Path(g, from).call(string).text(":").call(space).at(), value, to);
  });
  for (const Grammar::Rule rule : {string, number, object, array}) g.add_call(g.start(value), rule, g.end(value));
  for (const char* word : {"true", "false", "null"}) g.add_text(g.start(value), word, g.end(value));
}

}  // namespace nibble::constrain
