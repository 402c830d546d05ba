#include "constrain/char_automaton.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "text/utf8.h"

namespace nibble::constrain {
namespace {

constexpr std::string_view kHex = "0123456789abcdef";

// UTF-8 of `low` to `high`, of equal length, from their byte `at` on.
void add_bytes(Grammar& g, Grammar::State from, const std::string& low, const std::string& high, size_t at,
               Grammar::State to) {
  const auto a = static_cast<uint8_t>(low[at]), b = static_cast<uint8_t>(high[at]);
  if (at + 1 == low.size()) return g.add_symbols(from, a, b, to);
  const std::string least(low.size(), '\x80'), most(low.size(), '\xBF');
  const auto part = [&](int first, int last, const std::string& rest_low, const std::string& rest_high) {
    const Grammar::State next = g.add_state();
    g.add_symbols(from, first, last, next);
    add_bytes(g, next, rest_low, rest_high, at + 1, to);
  };
  if (a == b) return part(a, b, low, high);
  const bool whole_low = low.compare(at + 1, low.npos, least, at + 1) == 0;
  const bool whole_high = high.compare(at + 1, high.npos, most, at + 1) == 0;
  const int first = whole_low ? a : a + 1, last = whole_high ? b : b - 1;
  if (!whole_low) part(a, a, low, most);
  if (first <= last) part(first, last, least, most);
  if (!whole_high) part(b, b, least, high);
}

std::string utf8(char32_t c) {
  std::string out;
  text::append_utf8(c, out);
  return out;
}

void add_json_char(Grammar& g, Grammar::State from, char32_t c, Grammar::State to) {
  static constexpr std::string_view kFrom = "\"\\\b\f\n\r\t", kTo = "\"\\bfnrt";
  const size_t named = kFrom.find(static_cast<char>(c));
  if (named != kFrom.npos) return g.add_text(from, std::string("\\") + kTo[named], to);
  g.add_text(from, std::string("\\u00") + kHex[c >> 4] + kHex[c & 15], to);
}

void add_json_range(Grammar& g, Grammar::State from, CharRange range, Grammar::State to) {
  const auto raw = [&](char32_t low, char32_t high) {
    low = std::max(low, range.low), high = std::min(high, range.high);
    if (low <= high) add_utf8(g, from, {low, high}, to);
  };
  for (char32_t c = range.low; c <= std::min<char32_t>(range.high, 0x1F); ++c) add_json_char(g, from, c, to);
  raw(0x20, '"' - 1);
  raw('"' + 1, '\\' - 1);
  raw('\\' + 1, kLastChar);
  for (const char32_t c : {U'"', U'\\'}) {
    if (range.low <= c && c <= range.high) add_json_char(g, from, c, to);
  }
}

}  // namespace

std::vector<CharRange> normalized(std::vector<CharRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const CharRange& a, const CharRange& b) { return a.low < b.low; });
  std::vector<CharRange> out;
  const auto push = [&](char32_t low, char32_t high) {
    if (low > high) return;
    if (!out.empty() && low <= out.back().high + 1) {
      out.back().high = std::max(out.back().high, high);
    } else {
      out.push_back({low, high});
    }
  };
  for (const CharRange& r : ranges) push(r.low, std::min(r.high, kLastChar));
  std::vector<CharRange> characters;
  for (const CharRange& r : out) {
    const CharRange before{r.low, std::min<char32_t>(r.high, 0xD7FF)},
        behind{std::max<char32_t>(r.low, 0xE000), r.high};
    if (before.low <= before.high) characters.push_back(before);
    if (behind.low <= behind.high) characters.push_back(behind);
  }
  return characters;
}

std::vector<CharRange> complement(std::vector<CharRange> ranges) {
  std::vector<CharRange> out;
  char32_t next = 0;
  for (const CharRange& r : normalized(std::move(ranges))) {
    if (r.low > next) out.push_back({next, r.low - 1});
    next = r.high + 1;
  }
  if (next <= kLastChar) out.push_back({next, kLastChar});
  return normalized(std::move(out));
}

CharAutomaton::State CharAutomaton::add_state() {
  if (states() == kMaxStates) {
    throw Refusal({.what = "the constraint",
                   .seen = "a regular expression of more than " + std::to_string(kMaxStates) + " states",
                   .rule = "each repetition that is counted takes states of its own",
                   .fix = "smaller bounds"});
  }
  edges_.emplace_back();
  return static_cast<State>(states() - 1);
}

// States are pairs of a state and a count, as far as there is anything to be counted.
CharAutomaton CharAutomaton::with_length(int64_t least, std::optional<int64_t> most) const {
  const int64_t counts = (most ? *most : least) + 1;
  CharAutomaton out;
  if (counts > kMaxStates || counts * states() > kMaxStates) {
    throw Refusal({.what = "the constraint",
                   .seen = std::to_string(counts - 1) + " characters are to be counted along a pattern",
                   .rule = "that takes more than " + std::to_string(kMaxStates) + " states",
                   .fix = "smaller bounds, or bounds within the pattern"});
  }
  for (int64_t i = 0; i < counts * states(); ++i) out.add_state();
  const auto at = [&](State s, int64_t count) { return static_cast<State>(s * counts + count); };
  for (State s = 0; s < states(); ++s) {
    for (const Edge& e : edges_[static_cast<size_t>(s)]) {
      const bool empty = e.range.low > e.range.high;
      for (int64_t n = 0; n < counts; ++n) {
        const int64_t next = empty ? n : most ? n + 1 : std::min(n + 1, counts - 1);
        if (next < counts) out.add(at(s, n), e.range, at(e.to, next));
      }
    }
  }
  out.start = at(start, 0);
  out.end = out.add_state();
  for (int64_t n = least; n < counts; ++n) out.add_empty(at(end, n), out.end);
  return out;
}

template <class AddRange>
void CharAutomaton::add_with(Grammar& grammar, Grammar::State from, Grammar::State to,
                             const AddRange& add_range) const {
  std::vector<Grammar::State> states;
  for (State s = 0; s < this->states(); ++s) states.push_back(grammar.add_state());
  grammar.add_empty(from, states[static_cast<size_t>(start)]);
  grammar.add_empty(states[static_cast<size_t>(end)], to);
  for (State s = 0; s < this->states(); ++s) {
    const Grammar::State here = states[static_cast<size_t>(s)];
    for (const Edge& e : edges_[static_cast<size_t>(s)]) {
      const Grammar::State there = states[static_cast<size_t>(e.to)];
      if (e.range.low > e.range.high) {
        grammar.add_empty(here, there);
      } else {
        add_range(here, e.range, there);
      }
    }
  }
}

void CharAutomaton::add_to(Grammar& grammar, Grammar::State from, Grammar::State to) const {
  add_with(grammar, from, to,
           [&](Grammar::State here, CharRange range, Grammar::State there) { add_utf8(grammar, here, range, there); });
}

void CharAutomaton::add_to_json(Grammar& grammar, Grammar::State from, Grammar::State to, Grammar::Rule any) const {
  add_with(grammar, from, to, [&](Grammar::State here, CharRange range, Grammar::State there) {
    if (range.low == 0 && range.high == kLastChar) return grammar.add_call(here, any, there);
    for (const CharRange& part : normalized({range})) add_json_range(grammar, here, part, there);
  });
}

void CharAutomaton::add_to_attribute(Grammar& grammar, Grammar::State from, Grammar::State to) const {
  add_with(grammar, from, to, [&](Grammar::State here, CharRange range, Grammar::State there) {
    char32_t next = range.low;
    for (const auto& [c, escape] : {std::pair(U'"', "&quot;"), std::pair(U'&', "&amp;")}) {
      if (c < next || c > range.high) continue;
      if (next < c) add_utf8(grammar, here, {next, c - 1}, there);
      grammar.add_text(here, escape, there);
      next = c + 1;
    }
    if (next <= range.high) add_utf8(grammar, here, {next, range.high}, there);
  });
}

CharAutomaton any_characters() {
  CharAutomaton out;
  out.start = out.end = out.add_state();
  out.add(out.start, {0, kLastChar}, out.start);
  return out;
}

void add_utf8(Grammar& grammar, Grammar::State from, CharRange range, Grammar::State to) {
  static constexpr CharRange kByLength[] = {{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xFFFF}, {0x10000, kLastChar}};
  for (const CharRange& whole : normalized({range})) {
    for (const CharRange& part : kByLength) {
      const char32_t low = std::max(whole.low, part.low), high = std::min(whole.high, part.high);
      if (low <= high) add_bytes(grammar, from, utf8(low), utf8(high), 0, to);
    }
  }
}

}  // namespace nibble::constrain
