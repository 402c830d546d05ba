// What fits into memory, and how fast memory lets a model be.
#pragma once

#include <cstdint>

#include "plan/footprint.h"

namespace nibble::plan {

// Sequences of `context` tokens that fit beside one rank's weights; 0 where the weights alone do not fit.
int64_t sequences_that_fit(const Footprint& f, int64_t memory_bytes, int64_t context);
// Tokens that one sequence may have there; 0 where none fits, at most what the model allows.
int64_t context_that_fits(const Footprint& f, int64_t memory_bytes);

// Bytes that one rank reads and writes for a step of `batch` sequences, each bringing one token at `context`: shared
// weights once, experts as many as uniform routing is expected to touch, state and MLA cache of each sequence.
double step_bytes(const Footprint& f, int64_t batch, int64_t context);
// Experts of a layer that a step touches under uniform routing: E (1 - (1 - k/E)^batch).
double distinct_experts(const checkpoint::Config& config, int64_t batch);
// No step can be faster than its bytes: batch x bandwidth / step_bytes.
double tokens_per_second(const Footprint& f, double gb_per_s, int64_t batch, int64_t context);

}  // namespace nibble::plan
