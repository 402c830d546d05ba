// The flags that say how tokens are drawn, under llama.cpp's names and vLLM's.
#pragma once

#include "nibble/engine.h"

namespace CLI {
class App;
}

namespace nibble::cli {

void add_sampling_options(CLI::App& command, SamplingParams& sampling);

}  // namespace nibble::cli
