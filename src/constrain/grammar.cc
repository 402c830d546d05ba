#include "constrain/grammar.h"

#include <algorithm>
#include <queue>
#include <string>
#include <utility>

#include "base/error.h"

namespace nibble::constrain {
namespace {

[[noreturn]] void refuse(const char* seen, const char* rule, const char* fix) {
  throw Refusal({.what = "the constraint", .seen = seen, .rule = rule, .fix = fix});
}

}  // namespace

Grammar::State Grammar::add_state() {
  if (states() == kMaxStates) {
    throw Refusal({.what = "the constraint",
                   .seen = "more than " + std::to_string(kMaxStates) + " states",
                   .rule = "its automaton is kept in memory, so its size is limited",
                   .fix = "smaller bounds on lengths, items and repetitions"});
  }
  ends_rule_.push_back(0);
  return static_cast<State>(states() - 1);
}

Grammar::Rule Grammar::add_rule() {
  const State start = add_state(), end = add_state();
  ends_rule_[static_cast<size_t>(end)] = 1;
  rules_.push_back({start, end});
  return static_cast<Rule>(rules_.size() - 1);
}

void Grammar::add_symbols(State from, int32_t low, int32_t high, State to) {
  added_.push_back({from, {Kind::kSymbols, low, high, to}});
}

void Grammar::add_text(State from, std::string_view bytes, State to) {
  if (bytes.empty()) return add_empty(from, to);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const State next = i + 1 == bytes.size() ? to : add_state();
    const auto byte = static_cast<uint8_t>(bytes[i]);
    add_symbols(from, byte, byte, next);
    from = next;
  }
}

void Grammar::add_empty(State from, State to) { added_.push_back({from, {Kind::kEmpty, 0, 0, to}}); }

void Grammar::add_call(State from, Rule rule, State to) { added_.push_back({from, {Kind::kCall, rule, rule, to}}); }

void Grammar::finish(Rule root) {
  root_ = root;
  measure();
  if (frames_needed_[static_cast<size_t>(start(root))] >= kMaxFrames) {
    refuse("nothing that is finite fits it", "there must be an answer, less than 128 levels deep",
           "an alternative that ends the recursion, or bounds that leave something");
  }
  pack();
  refuse_left_recursion();
  classify();
}

// The fewest frames with which each state reaches the end of its rule: shortest paths, where the length of a path is
// the most that any of its calls needs. States are settled in ascending order, so a rule is settled before its callers.
void Grammar::measure() {
  frames_needed_.assign(static_cast<size_t>(states()), kNever);
  std::vector<std::vector<int32_t>> into(static_cast<size_t>(states())), callers(rules_.size());
  for (size_t i = 0; i < added_.size(); ++i) {
    const Move& m = added_[i].move;
    into[static_cast<size_t>(m.to)].push_back(static_cast<int32_t>(i));
    if (m.kind == Kind::kCall) callers[static_cast<size_t>(m.low)].push_back(static_cast<int32_t>(i));
  }
  std::vector<std::vector<int32_t>> starts(static_cast<size_t>(states()));
  for (size_t r = 0; r < rules_.size(); ++r)
    starts[static_cast<size_t>(rules_[r].start)].push_back(static_cast<int32_t>(r));

  using Entry = std::pair<int32_t, State>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  std::vector<uint8_t> settled(static_cast<size_t>(states()));
  const auto relax = [&](State s, int32_t frames) {
    int32_t& known = frames_needed_[static_cast<size_t>(s)];
    if (frames >= known) return;
    known = frames;
    queue.emplace(frames, s);
  };
  const auto try_move = [&](const Added& a) {
    int32_t frames = frames_needed_[static_cast<size_t>(a.move.to)];
    if (a.move.kind == Kind::kCall) {
      const State callee = start(a.move.low);
      if (settled[static_cast<size_t>(callee)] == 0 || frames == kNever) return;
      frames = std::max(frames, frames_needed_[static_cast<size_t>(callee)] + 1);
    }
    relax(a.from, frames);
  };
  for (const Ends& rule : rules_) relax(rule.end, 0);
  while (!queue.empty()) {
    const State s = queue.top().second;
    queue.pop();
    if (std::exchange(settled[static_cast<size_t>(s)], uint8_t{1}) != 0) continue;
    for (const int32_t i : into[static_cast<size_t>(s)]) try_move(added_[static_cast<size_t>(i)]);
    for (const int32_t rule : starts[static_cast<size_t>(s)]) {
      for (const int32_t i : callers[static_cast<size_t>(rule)]) try_move(added_[static_cast<size_t>(i)]);
    }
  }
}

// Moves side by side for each state, without those that lead nowhere.
void Grammar::pack() {
  const auto leads_on = [this](const Added& a) {
    const bool callee = a.move.kind != Kind::kCall || frames_needed(start(a.move.low)) < kMaxFrames;
    return callee && frames_needed(a.move.to) < kMaxFrames;
  };
  std::erase_if(added_, [&](const Added& a) { return !leads_on(a); });
  std::stable_sort(added_.begin(), added_.end(), [](const Added& a, const Added& b) { return a.from < b.from; });
  first_.assign(static_cast<size_t>(states()) + 1, 0);
  moves_.reserve(added_.size());
  for (const Added& a : added_) {
    ++first_[static_cast<size_t>(a.from) + 1];
    moves_.push_back(a.move);
  }
  for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
  added_ = {};
}

// A rule that can call itself before a symbol was taken would be called for ever.
void Grammar::refuse_left_recursion() const {
  std::vector<uint8_t> can_be_empty(rules_.size());
  std::vector<std::vector<Rule>> first_calls(rules_.size());
  std::vector<int32_t> seen(static_cast<size_t>(states()));
  int32_t round = 0;
  const auto explore = [&](size_t rule) {  // true where something new is known
    std::vector<State> open;
    ++round;
    first_calls[rule].clear();
    bool ends = false;
    const auto visit = [&](State s) {
      if (std::exchange(seen[static_cast<size_t>(s)], round) != round) open.push_back(s);
    };
    visit(rules_[rule].start);
    while (!open.empty()) {
      const State s = open.back();
      open.pop_back();
      ends = ends || s == rules_[rule].end;
      for (const Move& m : moves(s)) {
        if (m.kind == Kind::kEmpty) visit(m.to);
        if (m.kind != Kind::kCall) continue;
        first_calls[rule].push_back(m.low);
        if (can_be_empty[static_cast<size_t>(m.low)] != 0) visit(m.to);
      }
    }
    return ends && std::exchange(can_be_empty[rule], uint8_t{1}) == 0;
  };
  for (bool news = true; news;) {
    news = false;
    for (size_t r = 0; r < rules_.size(); ++r) news = explore(r) || news;
  }
  std::vector<uint8_t> colour(rules_.size());  // 1: on the path, 2: done
  const auto walk = [&](const auto& self, size_t rule) -> void {
    colour[rule] = 1;
    for (const Rule next : first_calls[rule]) {
      const auto n = static_cast<size_t>(next);
      if (colour[n] == 1) {
        refuse("a part that begins with itself", "a definition that refers to itself has something around that",
               "an object or an array between the definition and the reference to it");
      }
      if (colour[n] == 0) self(self, n);
    }
    colour[rule] = 2;
  };
  for (size_t r = 0; r < rules_.size(); ++r) {
    if (colour[r] == 0) walk(walk, r);
  }
}

void Grammar::classify() {
  int32_t symbols = kBytes;
  for (const Move& m : moves_) {
    if (m.kind == Kind::kSymbols) symbols = std::max(symbols, m.high + 1);
  }
  std::vector<uint8_t> begins(static_cast<size_t>(symbols) + 1);
  for (const Move& m : moves_) {
    if (m.kind == Kind::kSymbols) begins[static_cast<size_t>(m.low)] = begins[static_cast<size_t>(m.high) + 1] = 1;
  }
  begins[0] = begins[kBytes] = 1;
  class_of_.clear();
  for (int32_t s = 0; s < symbols; ++s) {
    if (begins[static_cast<size_t>(s)] != 0) example_of_.push_back(s);
    class_of_.push_back(static_cast<int32_t>(example_of_.size()) - 1);
  }
  classes_ = static_cast<int32_t>(example_of_.size());
}

}  // namespace nibble::constrain
