#include "constrain/automaton.h"

#include <algorithm>
#include <stdexcept>

namespace nibble::constrain {
namespace {

// Places looked at in one walk over the vocabulary: a thousand times what usual schemas take, and less than a second,
// for the engine waits.
constexpr int64_t kMaxWork = 5'000'000;

}  // namespace

Store::Store(const Grammar& grammar, const TokenTrie& trie)
    : grammar_(grammar),
      trie_(trie),
      found_at_(static_cast<size_t>(grammar.states()), -1),
      path_(static_cast<size_t>(trie.depth()) + 1) {
  const Node bottom{kBottom, -1};
  intern({&bottom, 1});
}

Store::Set Store::intern(std::span<const Node> nodes) {
  uint64_t hash = nodes.size();
  for (const Node& n : nodes) {
    hash = (hash ^ static_cast<uint32_t>(n.state)) * 0x9E3779B97F4A7C15u;
    hash = (hash ^ hash >> 29 ^ static_cast<uint32_t>(n.below)) * 0xBF58476D1CE4E5B9u;
  }
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const std::span<const Node> known = this->nodes(it->second);
    if (std::equal(known.begin(), known.end(), nodes.begin(), nodes.end())) return it->second;
  }
  int32_t depth = 0;
  for (const Node& n : nodes) {
    if (n.below >= 0) depth = std::max(depth, sets_[static_cast<size_t>(n.below)].depth + 1);
  }
  const auto set = static_cast<Set>(sets_.size());
  sets_.push_back({static_cast<int32_t>(nodes_.size()), static_cast<int32_t>(nodes.size()), depth});
  nodes_.insert(nodes_.end(), nodes.begin(), nodes.end());
  by_hash_.emplace(hash, set);
  bytes_ += static_cast<int64_t>(nodes.size_bytes() + sizeof(SetInfo) + 48);
  return set;
}

// Stacks of either, those with the same top as one.
Store::Set Store::unite(Set a, Set b) {
  if (a == b) return a;
  std::vector<Node> out;
  const auto copy = [&](Set set) {
    const std::span<const Node> from = nodes(set);
    return std::vector<Node>(from.begin(), from.end());
  };
  const std::vector<Node> left = copy(a), right = copy(b);  // for interning moves what they point into
  size_t i = 0, j = 0;
  while (i < left.size() || j < right.size()) {
    if (j == right.size() || (i < left.size() && left[i].state < right[j].state)) {
      out.push_back(left[i++]);
    } else if (i == left.size() || right[j].state < left[i].state) {
      out.push_back(right[j++]);
    } else {
      const bool bottom = left[i].state == kBottom;
      out.push_back({left[i].state, bottom ? -1 : unite(left[i].below, right[j].below)});
      ++i, ++j;
    }
  }
  work_ += static_cast<int64_t>(out.size());
  return intern(out);
}

void Store::add(Grammar::State state, Set below) {
  // Whoever comes this deep must be able to get out again within the frames there may be.
  if (sets_[static_cast<size_t>(below)].depth + grammar_.frames_needed(state) > kMaxFrames) return;
  int32_t& at = found_at_[static_cast<size_t>(state)];
  if (at < 0) {
    at = static_cast<int32_t>(found_.size());
    found_.push_back({state, below});
    open_.push_back(at);
    return;
  }
  const Set all = unite(found_[static_cast<size_t>(at)].below, below);
  if (all == found_[static_cast<size_t>(at)].below) return;
  found_[static_cast<size_t>(at)].below = all;
  open_.push_back(at);
}

void Store::close() {
  while (!open_.empty()) {
    const Node n = found_[static_cast<size_t>(open_.back())];
    open_.pop_back();
    ++work_;
    if (grammar_.ends_rule(n.state)) {
      for (int32_t i = 0; i < sets_[static_cast<size_t>(n.below)].size; ++i) {
        const Node caller = nodes(n.below)[static_cast<size_t>(i)];
        if (caller.state == kBottom) {
          complete_ = true;
        } else {
          add(caller.state, caller.below);
        }
      }
    }
    for (const Grammar::Move& m : grammar_.moves(n.state)) {
      if (m.kind == Grammar::Kind::kEmpty) add(m.to, n.below);
      if (m.kind != Grammar::Kind::kCall) continue;
      if (sets_[static_cast<size_t>(n.below)].depth + grammar_.frames_needed(m.to) > kMaxFrames) continue;
      const Node frame{m.to, n.below};
      add(grammar_.start(m.low), intern({&frame, 1}));
    }
  }
}

// Only states that a symbol leads out of are told apart: what follows from the others is there already.
Place Store::gathered() {
  close();
  for (const Node& n : found_) found_at_[static_cast<size_t>(n.state)] = -1;
  std::erase_if(found_, [this](const Node& n) {
    const auto moves = grammar_.moves(n.state);
    return std::none_of(moves.begin(), moves.end(),
                        [](const Grammar::Move& m) { return m.kind == Grammar::Kind::kSymbols; });
  });
  std::sort(found_.begin(), found_.end(), [](const Node& a, const Node& b) { return a.state < b.state; });
  const bool complete = std::exchange(complete_, false);
  if (found_.empty() && !complete) return kDead;
  const Set set = intern(found_);
  found_.clear();
  const auto [it, fresh] =
      by_set_.emplace(static_cast<uint64_t>(set) * 2 + (complete ? 1 : 0), static_cast<Place>(configurations_.size()));
  if (fresh) {
    configurations_.push_back({set, complete});
    moves_.insert(moves_.end(), static_cast<size_t>(grammar_.classes()), kUnknown);
    masks_.emplace_back();
    plain_next_.push_back(kUnknown);
    bytes_ += grammar_.classes() * static_cast<int64_t>(sizeof(int32_t)) + 64;
  }
  return it->second;
}

Place Store::start() {
  add(grammar_.start(grammar_.root()), 0);
  return gathered();
}

Place Store::after(Place place, int32_t symbol) {
  return symbol < grammar_.symbols() ? move(place, grammar_.class_of(symbol)) : kDead;
}

Place Store::move(Place place, int32_t symbol_class) {
  const size_t at = static_cast<size_t>(place) * static_cast<size_t>(grammar_.classes()) + symbol_class;
  if (moves_[at] != kUnknown) return moves_[at];
  const int32_t symbol = grammar_.example_of(symbol_class);
  const Set set = configurations_[static_cast<size_t>(place)].set;
  for (int32_t i = 0; i < sets_[static_cast<size_t>(set)].size; ++i) {
    const Node n = nodes(set)[static_cast<size_t>(i)];
    ++work_;
    for (const Grammar::Move& m : grammar_.moves(n.state)) {
      if (m.kind == Grammar::Kind::kSymbols && m.low <= symbol && symbol <= m.high) add(m.to, n.below);
    }
  }
  const Place to = gathered();
  found_.clear();
  return moves_[at] = to;
}

Place Store::after_token(Place place, int32_t id) {
  for (size_t i = 0; i < trie_.controls().size(); ++i) {
    if (trie_.controls()[i] == id) return after(place, kBytes + static_cast<int32_t>(i));
  }
  const std::string_view bytes = trie_.bytes(id);
  if (bytes.empty()) return kDead;
  for (const char byte : bytes) {
    place = after(place, static_cast<uint8_t>(byte));
    if (place == kDead) return kDead;
  }
  return place;
}

std::span<const uint64_t> Store::allowed(Place place) {
  auto& mask = masks_[static_cast<size_t>(place)];
  const size_t words = trie_.words();
  if (!mask) {
    auto fresh = std::make_unique<uint64_t[]>(words);
    walk(place, {fresh.get(), words});
    masks_[static_cast<size_t>(place)] = std::move(fresh);  // the walk may have moved them
    bytes_ += static_cast<int64_t>(words * sizeof(uint64_t));
  }
  return {masks_[static_cast<size_t>(place)].get(), words};
}

// Where every plain character leads, if it is one place for all of them: itself within a string of any length, the next
// count where characters are counted. kDead where they part.
Place Store::after_plain(Place place) {
  if (plain_next_[static_cast<size_t>(place)] != kUnknown) return plain_next_[static_cast<size_t>(place)];
  const auto to = [&](Place from, int32_t low, int32_t high) {  // where all of these bytes lead, or kDead
    const Place first = from == kDead ? kDead : after(from, low);
    for (int32_t byte = low + 1; byte <= high && first != kDead; ++byte) {
      if (after(from, byte) != first) return kDead;
    }
    return first;
  };
  const Place next = to(place, 0x20, 0x21);
  const auto leads_there = [&](int32_t lead_low, int32_t lead_high, int32_t second_low, int32_t second_high, int more) {
    Place at = to(to(place, lead_low, lead_high), second_low, second_high);
    for (int i = 0; i < more; ++i) at = to(at, 0x80, 0xBF);
    return at == next;
  };
  const bool all = next != kDead && to(place, 0x23, 0x5B) == next && to(place, 0x5D, 0x7F) == next &&
                   leads_there(0xC2, 0xDF, 0x80, 0xBF, 0) && leads_there(0xE0, 0xE0, 0xA0, 0xBF, 1) &&
                   leads_there(0xE1, 0xEC, 0x80, 0xBF, 1) && leads_there(0xED, 0xED, 0x80, 0x9F, 1) &&
                   leads_there(0xEE, 0xEF, 0x80, 0xBF, 1) && leads_there(0xF0, 0xF0, 0x90, 0xBF, 2) &&
                   leads_there(0xF1, 0xF3, 0x80, 0xBF, 2) && leads_there(0xF4, 0xF4, 0x80, 0x8F, 2);
  return plain_next_[static_cast<size_t>(place)] = all ? next : kDead;
}

// Whether as many plain characters may come as the longest token has, whichever they are.
bool Store::has_plain_room(Place place) {
  for (int32_t i = 0; i < trie_.longest_plain(); ++i) {
    const Place next = after_plain(place);
    if (next == kDead || next == place) return next == place;
    place = next;
  }
  return true;
}

void Store::walk(Place place, std::span<uint64_t> out) {
  const auto set = [&](int32_t id) { out[static_cast<size_t>(id / 64)] |= uint64_t{1} << (id % 64); };
  work_ = 0;
  // Tokens of plain characters need not be walked where there is room for the longest of them.
  const bool skip_plain = has_plain_room(place);
  if (skip_plain) std::copy(trie_.plain().begin(), trie_.plain().end(), out.begin());
  const std::span<const TokenTrie::Node> tree = trie_.nodes();
  path_[0] = place;
  for (size_t i = 0; i < tree.size();) {
    const TokenTrie::Node& n = tree[i];
    const Place to = skip_plain && n.plain ? kDead : move(path_[n.depth - size_t{1}], grammar_.class_of(n.byte));
    if (to == kDead) {
      i = static_cast<size_t>(n.behind);
      continue;
    }
    if (work_ > kMaxWork) throw std::runtime_error("the constraint's automaton grows beyond what can be walked");
    path_[n.depth] = to;
    if (n.token >= 0) set(n.token);
    ++i;
  }
  for (size_t i = 0; i < trie_.controls().size(); ++i) {
    if (after(place, kBytes + static_cast<int32_t>(i)) != kDead) set(trie_.controls()[i]);
  }
  if (complete(place)) {
    for (const int32_t id : trie_.ends()) set(id);
  }
}

Store::Set Store::import_set(const Store& other, Set set, std::unordered_map<Set, Set>& known) {
  const auto it = known.find(set);
  if (it != known.end()) return it->second;
  std::vector<Node> out;
  for (const Node& n : other.nodes(set)) {
    out.push_back({n.state, n.below < 0 ? -1 : import_set(other, n.below, known)});
  }
  return known[set] = intern(out);
}

Place Store::import(const Store& other, Place place) {
  const Configuration& c = other.configurations_[static_cast<size_t>(place)];
  std::unordered_map<Set, Set> known;
  for (const Node& n : other.nodes(c.set)) add(n.state, import_set(other, n.below, known));
  complete_ = c.complete;
  return gathered();
}

}  // namespace nibble::constrain
