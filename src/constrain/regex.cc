#include "constrain/regex.h"

#include <algorithm>
#include <memory>
#include <string>

#include "base/error.h"
#include "text/utf8.h"

namespace nibble::constrain {
namespace {

using State = CharAutomaton::State;

constexpr int kMaxNesting = 200;        // of groups: the parser recurses
constexpr int64_t kMaxCount = 100'000;  // of a repetition; states are limited besides

const std::vector<CharRange> kDigit = {{'0', '9'}};
const std::vector<CharRange> kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const std::vector<CharRange> kSpace = {{'\t', '\r'}, {' ', ' '}};
// What \S leaves out: white space of any dialect, so that what it lets through is none in all of them.
const std::vector<CharRange> kAnySpace = {{'\t', '\r'},     {0x1C, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                                          {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                          {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const std::vector<CharRange> kLineBreak = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
const std::vector<CharRange> kAnything = {{0, kLastChar}};

struct Node {
  enum class Kind : uint8_t { kChars, kSequence, kChoice, kRepeat } kind;
  std::vector<CharRange> chars;
  std::vector<std::unique_ptr<Node>> parts;  // none: matches nothing but the empty text
  int64_t least = 0, most = 0;               // of a repeat; most -1: no limit
};
using NodePtr = std::unique_ptr<Node>;

NodePtr make(Node::Kind kind) {
  auto node = std::make_unique<Node>();
  node->kind = kind;
  return node;
}
NodePtr make_chars(std::vector<CharRange> chars) {
  NodePtr node = make(Node::Kind::kChars);
  node->chars = normalized(std::move(chars));
  return node;
}
NodePtr make_repeat(NodePtr part, int64_t least, int64_t most) {
  NodePtr node = make(Node::Kind::kRepeat);
  node->parts.push_back(std::move(part));
  node->least = least;
  node->most = most;
  return node;
}

class Parser {
 public:
  Parser(std::string_view pattern, RegexMatch match, std::string_view what)
      : pattern_(pattern), match_(match), what_(what) {
    if (text::valid_utf8_prefix(pattern) != static_cast<int64_t>(pattern.size())) refuse("bytes that are no UTF-8");
  }

  NodePtr whole() {
    NodePtr node = choice();
    if (!at_end()) refuse("a ) that closes nothing");
    return node;
  }

 private:
  [[noreturn]] void refuse(std::string seen, const char* fix = "docs/constrained.md has what is supported") const {
    throw Refusal({.what = std::string(what_),
                   .seen = seen + " at byte " + std::to_string(at_) + " of the regular expression",
                   .rule = "it is compiled to a finite automaton",
                   .fix = fix});
  }

  bool at_end() const { return at_ == pattern_.size(); }
  bool ahead(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool take(std::string_view text) {
    if (!ahead(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t take_char() {
    if (at_end()) refuse("the end in the middle of something");
    const text::Utf8Char c = text::decode_utf8(pattern_.substr(at_));
    at_ += static_cast<size_t>(c.length);
    return c.code_point;
  }

  NodePtr choice() {
    if (++nesting_ > kMaxNesting) refuse("groups nested more than 200 deep");
    NodePtr node = make(Node::Kind::kChoice);
    do {
      node->parts.push_back(sequence());
    } while (take("|"));
    --nesting_;
    return node;
  }

  // At the outermost level an alternative that is not held at an end is open there, where the text is searched.
  NodePtr sequence() {
    const bool outer = nesting_ == 1;
    NodePtr node = make(Node::Kind::kSequence);
    bool held = take_anchor("^", "\\A");
    if (held && !outer) refuse("^ within a group", "^ at the beginning of the expression or of an alternative");
    if (outer && !held && match_ == RegexMatch::kSearch)
      node->parts.push_back(make_repeat(make_chars(kAnything), 0, -1));
    held = false;
    while (!at_end() && !ahead("|") && !ahead(")")) {
      if (take_anchor("$", "\\z") || take("\\Z")) {
        held = true;
        if (!outer || (!at_end() && !ahead("|"))) {
          refuse("$ before the end", "$ at the end of the expression or of an alternative");
        }
        break;
      }
      if (ahead("^") || ahead("\\A")) refuse("^ behind the beginning", "\\^ for the character itself");
      node->parts.push_back(repetition(atom()));
    }
    if (outer && !held && match_ == RegexMatch::kSearch)
      node->parts.push_back(make_repeat(make_chars(kAnything), 0, -1));
    return node;
  }
  bool take_anchor(std::string_view a, std::string_view b) { return take(a) || take(b); }

  NodePtr repetition(NodePtr part) {
    int64_t least = 0, most = 0;
    if (take("*")) {
      most = -1;
    } else if (take("+")) {
      least = 1, most = -1;
    } else if (take("?")) {
      most = 1;
    } else if (!counts(least, most)) {
      return part;
    }
    if (ahead("+")) refuse("a possessive quantifier", "the same without the +");
    take("?");  // lazy: what is matched first is no matter of what matches
    if (ahead("*") || ahead("+") || ahead("?"))
      refuse("a quantifier of a quantifier", "a group around what is repeated");
    return make_repeat(std::move(part), least, most);
  }

  // {2}, {2,} or {2,5}; a brace that begins none of them is a character.
  bool counts(int64_t& least, int64_t& most) {
    const size_t begin = at_;
    const auto number = [&](int64_t& to) {
      const size_t first = at_;
      to = 0;
      while (!at_end() && pattern_[at_] >= '0' && pattern_[at_] <= '9') {
        to = std::min(to * 10 + (pattern_[at_++] - '0'), kMaxCount + 1);
      }
      return at_ != first;
    };
    if (take("{") && number(least)) {
      most = least;
      if (take(",") && !number(most)) most = -1;
      if (take("}")) {
        if (least > kMaxCount || most > kMaxCount) refuse("a repetition of more than 100000");
        if (most >= 0 && most < least) refuse("a repetition of at least more than at most");
        return true;
      }
    }
    at_ = begin;
    return false;
  }

  NodePtr atom() {
    if (take("(")) return group();
    if (take("[")) return make_chars(bracket());
    if (take(".")) return make_chars(complement(kLineBreak));
    if (ahead("*") || ahead("+") || ahead("?")) refuse("a quantifier with nothing before it");
    if (!take("\\")) return make_chars(one(take_char()));
    return make_chars(escape(/*in_bracket=*/false));
  }

  NodePtr group() {
    if (take("?")) {
      if (ahead("=") || ahead("!") || ahead("<=") || ahead("<!")) {
        refuse("lookaround", "an expression that says what the text itself is");
      }
      if (ahead(">")) refuse("an atomic group", "(?: in its place");
      if (take("P<") || take("<")) {
        while (!at_end() && pattern_[at_] != '>') ++at_;
        if (!take(">")) refuse("a group's name without an end");
      } else if (ahead("P=") || ahead("P>") || ahead("&") || ahead("R")) {
        refuse("a reference to another group", "the expression itself in its place");
      } else if (!take(":")) {
        refuse("a group with flags", "what they mean, spelled out");
      }
    }
    NodePtr node = choice();
    if (!take(")")) refuse("a group without its )");
    return node;
  }

  static std::vector<CharRange> one(char32_t c) { return {{c, c}}; }

  std::vector<CharRange> bracket() {
    const bool inverted = take("^");
    std::vector<CharRange> out;
    for (bool first = true; first || !ahead("]"); first = false) {
      if (at_end()) refuse("a [ without its ]");
      if (ahead("[:") || ahead("[.") || ahead("[=")) refuse("a POSIX class", "its characters, as in a-z");
      if (ahead("&&") || ahead("--") || ahead("~~")) refuse("an operation on classes", "the ranges that it leaves");
      const std::vector<CharRange> low = take("\\") ? escape(true) : one(take_char());
      const bool single = low.size() == 1 && low[0].low == low[0].high;
      if (!single || !ahead("-") || pattern_.substr(at_ + 1).starts_with("]")) {
        out.insert(out.end(), low.begin(), low.end());
        continue;
      }
      take("-");
      const std::vector<CharRange> high = take("\\") ? escape(true) : one(take_char());
      if (high.size() != 1 || high[0].low != high[0].high) refuse("a range that ends in a class");
      if (high[0].low < low[0].low) refuse("a range that ends before it begins");
      out.push_back({low[0].low, high[0].low});
    }
    take("]");
    return inverted ? complement(std::move(out)) : out;
  }

  std::vector<CharRange> escape(bool in_bracket) {
    const char32_t c = take_char();
    switch (c) {
      case 'd': return kDigit;
      case 'D': return complement(kDigit);
      case 'w': return kWord;
      case 'W': return complement(kWord);
      case 's': return kSpace;
      case 'S': return complement(kAnySpace);
      case 't': return one('\t');
      case 'n': return one('\n');
      case 'r': return one('\r');
      case 'f': return one('\f');
      case 'v': return one('\v');
      case 'x': return one(hexadecimal(2));
      case 'u': return one(hexadecimal(4));
      case '0':
        if (at_end() || pattern_[at_] < '0' || pattern_[at_] > '9') return one(0);
        refuse("an octal escape", "\\x and two hexadecimal digits");
      case 'b':
        if (in_bracket) return one('\b');
        refuse("a word boundary", "the characters that may stand there");
      case 'B': refuse("a word boundary", "the characters that may stand there");
      case 'p':
      case 'P': refuse("a Unicode property", "the ranges of characters that are meant");
      case 'k': refuse("a backreference", "the expression itself in its place");
      default: break;
    }
    if (c >= '1' && c <= '9') refuse("a backreference", "the expression itself in its place");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      refuse(std::string("the escape \\") + static_cast<char>(c));
    }
    return one(c);
  }

  char32_t hexadecimal(int digits) {
    const bool braced = take("{");
    char32_t value = 0;
    int seen = 0;
    while (!at_end() && (braced ? pattern_[at_] != '}' : seen < digits)) {
      const char c = pattern_[at_];
      const bool digit = c >= '0' && c <= '9', letter = (c | 32) >= 'a' && (c | 32) <= 'f';
      if (!digit && !letter) refuse("an escape whose digits are not hexadecimal");
      value = std::min<char32_t>(value * 16 + static_cast<char32_t>(digit ? c - '0' : (c | 32) - 'a' + 10), 0x110000);
      ++seen;
      ++at_;
    }
    if ((braced && !take("}")) || seen == 0 || (!braced && seen < digits)) refuse("an escape with too few digits");
    if (value > kLastChar || (value >= 0xD800 && value < 0xE000)) refuse("an escape that is no character");
    return value;
  }

  std::string_view pattern_;
  RegexMatch match_;
  std::string_view what_;
  size_t at_ = 0;
  int nesting_ = 0;
};

// Adds what matches `node` behind `from`; returns where that ends.
State emit(CharAutomaton& out, const Node& node, State from) {
  switch (node.kind) {
    case Node::Kind::kChars: {
      const State to = out.add_state();
      if (node.chars.size() == 2 && node.chars[0].low == 0 && node.chars[1].high == kLastChar &&
          node.chars[0].high == 0xD7FF && node.chars[1].low == 0xE000) {
        out.add(from, {0, kLastChar}, to);
      } else {
        for (const CharRange& r : node.chars) out.add(from, r, to);
      }
      return to;
    }
    case Node::Kind::kSequence:
      for (const NodePtr& part : node.parts) from = emit(out, *part, from);
      return from;
    case Node::Kind::kChoice: {
      const State to = out.add_state();
      for (const NodePtr& part : node.parts) {
        const State begin = out.add_state();
        out.add_empty(from, begin);
        out.add_empty(emit(out, *part, begin), to);
      }
      return to;
    }
    case Node::Kind::kRepeat: break;
  }
  const Node& part = *node.parts.front();
  for (int64_t i = 0; i < node.least; ++i) from = emit(out, part, from);
  const State to = out.add_state();
  if (node.most < 0) {
    const State loop = out.add_state();
    out.add_empty(from, loop);
    out.add_empty(emit(out, part, loop), loop);
    out.add_empty(loop, to);
    return to;
  }
  out.add_empty(from, to);
  for (int64_t i = node.least; i < node.most; ++i) {
    from = emit(out, part, from);
    out.add_empty(from, to);
  }
  return to;
}

}  // namespace

CharAutomaton parse_regex(std::string_view pattern, RegexMatch match, std::string_view what) {
  const NodePtr whole = Parser(pattern, match, what).whole();
  CharAutomaton out;
  out.start = out.add_state();
  out.end = emit(out, *whole, out.start);
  return out;
}

}  // namespace nibble::constrain
