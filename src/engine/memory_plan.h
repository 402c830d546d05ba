// What a run takes of a device's memory, before it takes it.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/checkpoint.h"
#include "engine/runner.h"
#include "nibble/engine.h"

namespace nibble::engine {

// "absorbed" or "expanded"; throws Refusal for anything else.
ops::MlaForm parse_mla_form(const std::string& name);

// The sizes of a runner.
struct RunnerPlan {
  RunnerOptions options;
  int64_t context = 0, cache_bytes = 0;
};
// `available`: bytes that the device has for the cache. `sampled_rows`: see make_runner. Throws Refusal.
RunnerPlan plan_runner(const EngineOptions& options, const model::K3& model, int64_t available, int64_t sampled_rows);

// A device with memory of its own gets a copy of the weights: whether they fit, with all that steps need, is said
// before the first is read. The sizes are those of a dry run, so they are what will be taken, or more than that where
// `dense` rewrites projections. Throws Refusal.
void check_memory(const EngineOptions& options, const checkpoint::Checkpoint& checkpoint, const Device& device);

}  // namespace nibble::engine
