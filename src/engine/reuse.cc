#include "engine/reuse.h"

#include <algorithm>

namespace nibble::engine {
namespace {

constexpr int64_t kWorth = ops::kPageTokens;  // tokens that a checkpoint must save somebody
constexpr int64_t kLong = 1024;               // tokens of a prompt that a page more or less makes no difference to

int64_t rounded_up(int64_t tokens) { return cache::pages_of(tokens) * ops::kPageTokens; }
int64_t rounded_down(int64_t tokens) { return tokens / ops::kPageTokens * ops::kPageTokens; }

}  // namespace

cache::PrefixIndex::Hit Reuse::begin(Completion& c) {
  const int64_t most = static_cast<int64_t>(c.tokens.size()) - 1;  // one row has to be run
  const auto hit = index_.find(c.tokens, c.scores_prompt() ? c.prompt_scored : most);
  index_.share(hit, c.sequence);
  return hit;
}

void Reuse::begun(Completion& c, const cache::PrefixIndex::Hit& hit) {
  index_.restore(hit, c.sequence);
  if (!index_.enabled() || c.generated() > 0) return;
  query_tokens_ += c.prompt_size;
  hit_tokens_ += hit.length;
  c.cached_tokens = hit.length;
  c.begun_from = hit.checkpoint;
  if (hit.checkpoint >= 0) c.begun_from_serial = index_.serial(hit.checkpoint);
  decide_positions(c, hit);
}

// Where the same prompt begins when it comes again. A long one stops short of its last page, or at the end of a turn
// within that, so that another question of some tokens behind the same text begins there too; other choices begin at
// the last token.
int64_t Reuse::end_of_prompt(const Completion& c) const {
  const int64_t last = c.prompt_size - 1, page = rounded_down(last);
  if (last < kLong || c.request->request.choices > 1) return last;
  for (int64_t at = last; at > page; --at) {
    if (c.tokens[static_cast<size_t>(at - 1)] == options_.turn_end) return at;
  }
  return page;
}

// Ascending. The one at the prompt's end is always among them; the others where the prompt leaves room for them.
void Reuse::decide_positions(Completion& c, const cache::PrefixIndex::Hit& hit) {
  std::vector<int64_t>& out = c.checkpoint_positions;
  out.clear();
  c.guessed_positions.clear();
  const int64_t last = end_of_prompt(c);
  if (last - hit.length < kWorth) return;
  out.push_back(last);
  const auto add = [&](int64_t position, int64_t apart) {
    const bool worth = position - hit.length >= kWorth && position < last;
    const bool known = std::any_of(out.begin(), out.end(), [&](int64_t p) { return std::abs(p - position) < apart; });
    if (worth && !known && out.size() < kMaxCheckpoints) out.push_back(position);
  };
  // No more than a few of all that there may be: one long prompt must not push out what others begin with.
  const int64_t share = index_.capacity() / 4;
  if (share >= 1) add(rounded_down(hit.paged), 1);
  if (share >= 2 && options_.turn_end >= 0) {
    const auto prompt = std::span<const int32_t>(c.tokens).first(static_cast<size_t>(c.prompt_size));
    const auto first = std::find(prompt.begin(), prompt.end(), options_.turn_end);
    if (first != prompt.end()) add(first - prompt.begin() + 1, 1);
    const auto final = std::find(prompt.rbegin(), prompt.rend(), options_.turn_end);
    if (final != prompt.rend()) add(prompt.rend() - final, 1);
  }
  // Guesses, and more of them where that takes nothing from anybody: beside those above and the answer's end.
  const auto known = static_cast<int64_t>(out.size());
  const int64_t most =
      std::min(std::max(share, index_.spare() - known - 1), static_cast<int64_t>(kMaxCheckpoints) - known);
  if (most >= 1) {
    const int64_t step = std::max(options_.interval, rounded_up(c.prompt_size / most));
    for (int64_t at = step; at < last; at += step) add(at, kWorth);
  }
  c.guessed_positions.assign(out.begin() + known, out.end());
  std::sort(out.begin(), out.end());
}

bool Reuse::worth_waiting(const Completion& c) const {
  if (!index_.enabled() || c.choice == 0 || c.generated() > 0 || c.prompt_size <= kWorth) return false;
  const Completion& first = *c.request->completions.front();
  return first.phase == Completion::Phase::kRunning && first.generated() == 0;
}

int64_t Reuse::rows_allowed(const Completion& c) const {
  const int64_t pending = c.pending();
  return c.checkpoint_positions.empty() ? pending
                                        : std::min(pending, c.checkpoint_positions.front() - c.sequence.length);
}

void Reuse::take_due(Completion& c) {
  if (c.checkpoint_positions.empty() || c.checkpoint_positions.front() != c.sequence.length) return;
  c.checkpoint_positions.erase(c.checkpoint_positions.begin());
  const int32_t saved = index_.save(c.sequence);
  if (saved < 0) return;
  c.saved_checkpoints.push_back(saved);
  const std::vector<int64_t>& guesses = c.guessed_positions;
  if (std::find(guesses.begin(), guesses.end(), c.sequence.length) != guesses.end()) {
    c.guessed_checkpoints.push_back(saved);
  }
}

void Reuse::proven(Completion& c) {
  if (!index_.enabled()) return;
  if (!c.saved_checkpoints.empty()) {
    c.left = c.saved_checkpoints.back();
    c.left_serial = index_.serial(c.left);
  }
  index_.insert(c.tokens, c.sequence, c.saved_checkpoints);
  for (const int32_t i : c.guessed_checkpoints) index_.supersede(i, index_.serial(i), /*hits_of_its_own=*/0);
  c.saved_checkpoints.clear();
  c.guessed_checkpoints.clear();
}

void Reuse::ended(Completion& c, FinishReason reason) {
  if (!index_.enabled()) return;
  discard_saved(c);
  const auto run = std::span<const int32_t>(c.tokens).first(static_cast<size_t>(c.sequence.length));
  if (reason == FinishReason::kError) return index_.forget(run);
  if (c.sequence.slot < 0 || c.generated() == 0 || c.sequence.length < kWorth) return;
  // What it began from and what it left on its way is of no more use to this conversation: it goes on from the end.
  index_.supersede(c.begun_from, c.begun_from_serial, /*hits_of_its_own=*/1);
  index_.supersede(c.left, c.left_serial, /*hits_of_its_own=*/0);
  const int32_t saved = index_.save(c.sequence);
  index_.insert(c.tokens, c.sequence, {&saved, saved >= 0 ? size_t{1} : size_t{0}});
}

void Reuse::restarted(Completion& c) {
  discard_saved(c);
  c.checkpoint_positions.clear();
}

void Reuse::discard_saved(Completion& c) {
  for (const int32_t i : c.saved_checkpoints) index_.discard(i);
  c.saved_checkpoints.clear();
  c.guessed_checkpoints.clear();
}

}  // namespace nibble::engine
