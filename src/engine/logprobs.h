// Log-probabilities of a row of logits, as the model gave them: before penalties, bias, mask and temperature.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nibble/engine.h"

namespace nibble::engine {

// Into `out`: `top` alternatives, the likeliest first, the lower id first among equals. `order` is scratch; it and
// `out` are used again from call to call, so that a step does not allocate.
void token_logprob(std::span<const float> logits, int32_t id, int32_t top, std::vector<int32_t>& order,
                   TokenLogprob& out);

}  // namespace nibble::engine
