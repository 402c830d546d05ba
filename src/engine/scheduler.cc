#include "engine/scheduler.h"

#include <algorithm>

namespace nibble::engine {
namespace {

bool before(const Completion* a, const Completion* b) {
  const int32_t pa = a->request->request.priority, pb = b->request->request.priority;
  return pa != pb ? pa > pb : a->arrival < b->arrival;
}

void insert_in_order(std::vector<Completion*>& list, Completion* c) {
  list.insert(std::upper_bound(list.begin(), list.end(), c, before), c);
}

}  // namespace

Scheduler::Scheduler(cache::Cache& cache, const SchedulerLimits& limits) : cache_(cache), limits_(limits) {
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
  c.phase = Completion::Phase::kDone;
}

void Scheduler::admit() {
  size_t admitted = 0;
  while (admitted < waiting_.size() && running() < limits_.sequences) {
    Completion* c = waiting_[admitted];
    if (!cache_.reserve(c->sequence, c->max_size)) break;
    c->phase = Completion::Phase::kRunning;
    insert_in_order(running_, c);
    ++admitted;
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<int64_t>(admitted));
}

std::span<const PlannedRows> Scheduler::plan() {
  admit();
  planned_.clear();
  int64_t rows = limits_.step_rows, longer = 0;
  for (Completion* c : running_) {
    const bool one = c->pending() == 1 && rows > 0;
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
      const int64_t more = std::min({share, rows, p.completion->pending() - p.rows});
      p.rows += more;
      rows -= more;
      p.last = p.rows == p.completion->pending();
      longer += p.last ? 0 : 1;
    }
  }
  std::erase_if(planned_, [](const PlannedRows& p) { return p.rows == 0; });
  return planned_;
}

}  // namespace nibble::engine
