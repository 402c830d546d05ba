// Log-probabilities of a row of logits, as the model gave them: before penalties, bias, mask and temperature.
#pragma once

#include <cstdint>
#include <span>

#include "nibble/engine.h"

namespace nibble::engine {

// `top` alternatives, the likeliest first, the lower id first among equals.
TokenLogprob token_logprob(std::span<const float> logits, int32_t id, int32_t top);

}  // namespace nibble::engine
