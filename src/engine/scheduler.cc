#include "engine/scheduler.h"

#include <algorithm>
#include <exception>

#include "base/error.h"

namespace nibble::engine {
namespace {

int32_t priority(const Completion& c) { return c.request->request.priority; }

bool before(const Completion* a, const Completion* b) {
  return priority(*a) != priority(*b) ? priority(*a) > priority(*b) : a->arrival < b->arrival;
}

void insert_in_order(std::vector<Completion*>& list, Completion* c) {
  list.insert(std::upper_bound(list.begin(), list.end(), c, before), c);
}

int64_t size_of(const Completion& c) { return static_cast<int64_t>(c.tokens.size()); }

}  // namespace

Scheduler::Scheduler(cache::Cache& cache, Reuse& reuse, const SchedulerLimits& limits)
    : cache_(cache), reuse_(reuse), limits_(limits) {
  waiting_.reserve(static_cast<size_t>(limits.expected));
  running_.reserve(static_cast<size_t>(limits.sequences));
  planned_.reserve(static_cast<size_t>(limits.sequences));
}

void Scheduler::add(Completion& c) {
  c.phase = Completion::Phase::kWaiting;
  insert_in_order(waiting_, &c);
}

void Scheduler::remove(Completion& c) {
  std::erase(waiting_, &c);
  std::erase(running_, &c);
  cache_.release(c.sequence);
  drop_snapshot(c);
  c.phase = Completion::Phase::kDone;
}

void Scheduler::drop_snapshot(Completion& c) {
  suspended_bytes_ -= c.suspended.memory_bytes();
  suspended_file_bytes_ -= c.suspended.file_bytes();
  c.suspended.drop();
}

void Scheduler::snapshot_failed(const char* why) {
  ++snapshot_failures_;
  snapshot_error_ = why;
}

int64_t Scheduler::held() const {
  return std::count_if(waiting_.begin(), waiting_.end(), [](const Completion* c) { return c->held; });
}

// In host memory, or else in a file. False where neither has room: it will run its tokens anew.
bool Scheduler::keep_snapshot(Completion& c) {
  if (c.sequence.length == 0) return false;
  const int64_t bytes = cache::Snapshot::bytes_for(cache_, c.sequence);
  try {
    if (suspended_bytes_ + bytes <= limits_.suspended_bytes) {
      c.suspended.take(cache_, c.sequence);
    } else if (!limits_.suspend_directory.empty() && suspended_file_bytes_ + bytes <= limits_.suspended_file_bytes) {
      c.suspended.take_to_file(cache_, c.sequence, limits_.suspend_directory);
    } else {
      return false;
    }
  } catch (const std::exception& error) {
    snapshot_failed(error.what());
    return false;
  }
  suspended_bytes_ += c.suspended.memory_bytes();
  suspended_file_bytes_ += c.suspended.file_bytes();
  return true;
}

void Scheduler::suspend(Completion& c) {
  if (c.phase != Completion::Phase::kRunning) return;
  if (!keep_snapshot(c)) reuse_.restarted(c);
  ++suspensions_;
  cache_.release(c.sequence);
  std::erase(running_, &c);
  add(c);
}

std::span<const PlannedRows> Scheduler::plan() {
  grow();
  admit();
  share_rows();
  return planned_;
}

// Who runs gets a page for what it has generated, the first in order first.
void Scheduler::grow() {
  for (size_t i = 0; i < running_.size(); ++i) {
    Completion& c = *running_[i];
    const int64_t missing = cache::pages_of(size_of(c)) - static_cast<int64_t>(c.sequence.pages.size());
    while (c.phase == Completion::Phase::kRunning && !reuse_.index().reclaim(missing)) {
      if (running_.size() == 1) throw ContractError("scheduler: a cache with fewer pages than one sequence needs");
      suspend(*running_.back());
    }
    if (c.phase == Completion::Phase::kRunning) cache_.reserve(c.sequence, size_of(c));
  }
}

void Scheduler::admit() {
  for (size_t i = 0; i < waiting_.size();) {
    Completion& c = *waiting_[i];
    if (c.held || reuse_.worth_waiting(c)) {
      ++i;
    } else if (start(c)) {
      waiting_.erase(waiting_.begin() + static_cast<int64_t>(i));
      c.phase = Completion::Phase::kRunning;
      insert_in_order(running_, &c);
    } else if (!preempt_for(c)) {
      return;
    }
  }
}

// Gives it what it needs to run the tokens it has, or nothing.
bool Scheduler::start(Completion& c) {
  if (running() == limits_.sequences || cache_.free_slots() == 0) return false;
  const bool resumes = c.suspended.length() > 0;
  const auto hit = resumes ? cache::PrefixIndex::Hit{} : reuse_.begin(c);
  const int64_t missing = cache::pages_of(size_of(c)) - static_cast<int64_t>(c.sequence.pages.size());
  if (cache_.free_pages() + cache_.idle_pages() < missing + growing() || !reuse_.index().reclaim(missing)) {
    cache_.release(c.sequence);
    return false;
  }
  cache_.reserve(c.sequence, size_of(c));
  if (!resumes) {
    reuse_.begun(c, hit);
    return true;
  }
  const int64_t memory = c.suspended.memory_bytes(), file = c.suspended.file_bytes();
  try {
    c.suspended.put_back(cache_, c.sequence);
  } catch (const std::exception& error) {
    snapshot_failed(error.what());
    drop_snapshot(c);
    cache_.release(c.sequence);
    reuse_.restarted(c);
    return start(c);
  }
  suspended_bytes_ -= memory;
  suspended_file_bytes_ -= file;
  return true;
}

// Running completions that may yet want a page: those are left for them, so that who starts does not push them out.
int64_t Scheduler::growing() const {
  return std::count_if(running_.begin(), running_.end(), [](const Completion* c) {
    return static_cast<int64_t>(c->sequence.pages.size()) < cache::pages_of(c->max_size);
  });
}

// True where somebody of lower priority made way.
bool Scheduler::preempt_for(const Completion& c) {
  if (running_.empty() || priority(*running_.back()) >= priority(c)) return false;
  int64_t pages = cache_.free_pages() + cache_.idle_pages();
  for (const Completion* r : running_) {
    if (priority(*r) < priority(c)) pages += static_cast<int64_t>(r->sequence.pages.size());
  }
  if (pages < cache::pages_of(size_of(c)) + growing()) return false;  // it would be for nothing
  suspend(*running_.back());
  return true;
}

void Scheduler::share_rows() {
  planned_.clear();
  int64_t rows = limits_.step_rows, longer = 0;
  int64_t logits = limits_.sampled_rows - running();  // beyond the one that each may want
  for (Completion* c : running_) {
    const bool one = reuse_.rows_allowed(*c) == 1 && rows > 0;
    longer += one ? 0 : 1;
    rows -= one ? 1 : 0;
    planned_.push_back({c, one ? 1 : 0, one});
  }
  // Rounds of even shares, until the rows or the prompts are used up. At least one row a share: the first in order get
  // the last rows.
  while (rows > 0 && longer > 0) {
    const int64_t share = std::max<int64_t>(1, rows / longer);
    longer = 0;
    for (PlannedRows& p : planned_) {
      const int64_t allowed = reuse_.rows_allowed(*p.completion), own = p.rows == 0 ? 1 : 0;
      int64_t more = std::min({share, rows, allowed - p.rows});
      if (p.completion->scores_prompt()) {
        more = std::min(more, logits + own);
        logits -= std::max<int64_t>(0, more - own);
      }
      p.rows += more;
      rows -= more;
      longer += more == 0 || p.rows == allowed ? 0 : 1;
    }
  }
  std::erase_if(planned_, [](const PlannedRows& p) { return p.rows == 0; });
  for (PlannedRows& p : planned_) p.last = p.rows == p.completion->pending();
}

}  // namespace nibble::engine
