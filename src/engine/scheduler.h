// Decides which completions run, and how many rows each brings to the next step.
//
// Order is by priority, then by arrival, everywhere. A completion runs once there is a slot for it and pages for the
// tokens it has; until then it waits, and those behind it wait too, so nobody is overtaken for ever by smaller
// requests. Pages for what it generates come as it grows. When there are none left, first what is only kept for reuse
// goes; then the last in order is suspended: its memory goes to the host, or, where the host has no room either, is
// given up, and it runs its tokens anew. Either way it goes on with the same bits. A higher priority that waits
// suspends lower ones. Who is held waits without a place in that order, until it is no longer held.
//
// In a step every running completion that has one row left to run (it generates) brings that row; what is left of the
// step's rows is shared evenly among those with more (prompts), and what the short ones do not need goes to the long
// ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "engine/request_state.h"
#include "engine/reuse.h"

namespace nibble::engine {

struct PlannedRows {
  Completion* completion = nullptr;
  int64_t rows = 0;
  bool last = false;  // nothing pending after them: a token is sampled
};

struct SchedulerLimits {
  int64_t step_rows = 256;
  int64_t sequences = 16;
  int64_t sampled_rows = 16;                // whose logits are read; at least as many as sequences
  int64_t suspended_bytes = 0;              // of host memory, for the state of suspended completions
  std::filesystem::path suspend_directory;  // for files with what that has no room for; empty: none
  int64_t suspended_file_bytes = 0;         // of those files
  int64_t expected = 1024;                  // completions that may wait without allocating
};

class Scheduler {
 public:
  // All three must outlive it. The cache has pages for at least one completion of any size that is added.
  Scheduler(cache::Cache& cache, Reuse& reuse, const SchedulerLimits& limits);

  void add(Completion& completion);  // to those who wait
  // Takes it out, wherever it is, and gives its memory back.
  void remove(Completion& completion);
  // Takes a running completion's memory; it waits for its turn to go on. No effect on others.
  void suspend(Completion& completion);

  // The rows of the next step; valid until the next call. Empty where nothing can run.
  std::span<const PlannedRows> plan();

  int64_t running() const { return static_cast<int64_t>(running_.size()); }
  int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }
  int64_t suspensions() const { return suspensions_; }
  int64_t suspended_bytes() const { return suspended_bytes_; }
  int64_t suspended_file_bytes() const { return suspended_file_bytes_; }
  int64_t held() const;
  // Snapshots that could not be written, or not be read again, and what was wrong with the last one.
  int64_t snapshot_failures() const { return snapshot_failures_; }
  const std::string& snapshot_error() const { return snapshot_error_; }

 private:
  void grow();
  void admit();
  bool start(Completion& completion);
  bool keep_snapshot(Completion& completion);
  void drop_snapshot(Completion& completion);
  void snapshot_failed(const char* why);
  bool preempt_for(const Completion& completion);
  int64_t growing() const;
  void share_rows();

  cache::Cache& cache_;
  Reuse& reuse_;
  SchedulerLimits limits_;
  std::vector<Completion*> waiting_, running_;  // in order
  std::vector<PlannedRows> planned_;
  int64_t suspensions_ = 0, suspended_bytes_ = 0, suspended_file_bytes_ = 0, snapshot_failures_ = 0;
  std::string snapshot_error_;
};

}  // namespace nibble::engine
