// Sends a load to an engine and writes down when each token came.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "nibble/engine.h"
#include "traffic/workload.h"

namespace nibble::traffic {

using Clock = std::chrono::steady_clock;

struct Timeline {
  // When it should have been sent: a request that had to wait for its turn has waited since then.
  Clock::time_point due;
  std::vector<Clock::time_point> tokens;
};

struct RunResult {
  std::vector<Timeline> timelines;  // of each request, in order
  int64_t prompt_tokens = 0, output_tokens = 0;
  double seconds = 0.0;  // from the start to the last token
};

// At most `concurrency` requests are in the engine at once; without arrivals the next is due when one has ended.
// Greedy, and past the model's own stop ids, so that each answer is as long as it was drawn. `stop` is asked from time
// to time and ends it early with an empty result. Throws Refusal for requests that the engine does not take,
// std::runtime_error where one fails.
RunResult run(Engine& engine, std::span<const PlannedRequest> workload, int64_t concurrency,
              const std::function<void(int64_t done)>& progress = {}, const std::function<bool()>& stop = {});

}  // namespace nibble::traffic
