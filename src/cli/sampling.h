// The flags that say how tokens are drawn, under llama.cpp's names and vLLM's.
#pragma once

#include <cstdint>

#include "nibble/engine.h"

namespace CLI {
class App;
}

namespace nibble::cli {

void add_sampling_options(CLI::App& command, SamplingParams& sampling);
// --json-schema, --json-object, --regex; refuses more than one of them.
void add_constraint_options(CLI::App& command, Constraint& constraint);
// -n; -1 is 0, no limit; leaves `tokens` alone where it is not given.
void add_max_tokens_option(CLI::App& command, int64_t& tokens, const char* what);

}  // namespace nibble::cli
