// A randomised soak: many requests of all kinds in one engine, each held against the same request alone in another.
//
// Everything follows from the seeds: what the requests are, when each comes, leaves, or is put aside. Requests that are
// cancelled, or run into a deadline, must have brought the beginning of what they bring alone.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "engine/load.h"
#include "engine/step_loop.h"
#include "engine/transcript.h"

namespace nibble::engine {

class Soak {
 public:
  // Makes `count` requests and runs each alone: one sequence, no reuse of anything. `loaded` was opened with `options`,
  // of which the context counts.
  Soak(LoadedModel& loaded, const EngineOptions& options, uint64_t seed, int64_t count);

  struct Result {
    std::vector<std::string> faults;  // one line each; empty: every token is right
    EngineStats stats;
    int64_t cancelled = 0, late = 0, whole = 0;  // choices by how they ended
  };
  // All of them in one engine of these options.
  Result run(const EngineOptions& options, uint64_t seed);

  int64_t tokens_alone() const;

 private:
  struct Case {
    Request request;
    std::vector<Transcript> alone;  // by choice
  };
  struct Running;

  std::vector<int32_t> random_tokens(int64_t count);
  std::vector<int32_t> make_prompt();
  Request make_request();
  void step_at_random(Running& running);
  void check(const Running& running, Result& result) const;

  LoadedModel& loaded_;
  EngineOptions options_;
  std::mt19937_64 random_;
  std::vector<std::vector<int32_t>> bases_;  // beginnings that prompts share
  std::vector<Case> cases_;
};

}  // namespace nibble::engine
