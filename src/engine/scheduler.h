// Decides which completions run, and how many rows each brings to the next step.
//
// Order is by priority, then by arrival, everywhere. A completion runs once the cache has room for it; until then it
// waits, and those behind it wait too, so nobody is overtaken for ever by smaller requests. In a step every running
// completion that has one row left to run (it generates) brings that row; what is left of the step's rows is shared
// evenly among those with more (prompts), and what the short ones do not need goes to the long ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/cache.h"
#include "engine/request_state.h"

namespace nibble::engine {

struct PlannedRows {
  Completion* completion = nullptr;
  int64_t rows = 0;
  bool last = false;  // nothing pending after them: a token is sampled
};

struct SchedulerLimits {
  int64_t step_rows = 256;
  int64_t sequences = 16;
  int64_t expected = 1024;  // completions that may wait without allocating
};

class Scheduler {
 public:
  Scheduler(cache::Cache& cache, const SchedulerLimits& limits);

  void add(Completion& completion);  // to those who wait
  // Takes it out, wherever it is, and gives its memory back.
  void remove(Completion& completion);

  // The rows of the next step; valid until the next call. Empty where nothing can run.
  std::span<const PlannedRows> plan();

  int64_t running() const { return static_cast<int64_t>(running_.size()); }
  int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }

 private:
  void admit();

  cache::Cache& cache_;
  SchedulerLimits limits_;
  std::vector<Completion*> waiting_, running_;  // in order
  std::vector<PlannedRows> planned_;
};

}  // namespace nibble::engine
