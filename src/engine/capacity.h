// How long sequences may get and how the cache's memory is split, from what was asked for and what memory there is:
// first a slot for each sequence, then checkpoints, then pages.
#pragma once

#include <cstdint>

#include "cache/cache.h"

namespace nibble::engine {

struct CapacityRequest {
  int64_t context = 0;           // wanted tokens a sequence; 0: as many as the model allows and memory holds
  int64_t model_context = 0;     // what the model allows
  int64_t sequences = 0;         // at once
  int64_t cache_bytes = 0;       // wanted for the whole cache; 0: what fits in half of `available`
  int64_t checkpoint_bytes = 0;  // of these, for checkpoints; -1: up to a quarter, as far as `context` leaves room
  int64_t available_bytes = 0;   // free memory of the device
};

struct Capacity {
  int64_t context = 0;  // tokens a sequence may reach
  int64_t pages = 0;    // at least one sequence of that length, at most all of them, or with checkpoints twice that
  int64_t checkpoints = 0;
};

// Throws Refusal where not even one sequence fits.
Capacity plan_capacity(const CapacityRequest& request, const cache::Shape& shape);

}  // namespace nibble::engine
