// What a request may not be: checked on the caller's thread, before the engine sees it.
#pragma once

#include "engine/request_state.h"

namespace nibble::engine {

// Entries that a request may name; memory for them is taken at the engine's construction.
constexpr int64_t kMaxLogitBias = 1024, kMaxStopIds = 128, kMaxStopStrings = 64, kMaxChoices = 128;

// Throws Refusal, naming the field.
void validate(const Request& request, const ModelFacts& facts);

}  // namespace nibble::engine
