// The files of a synthetic checkpoint that are not weights. Only for synth.cc.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/synth.h"

namespace nibble::checkpoint {

std::string synth_config_json(const SynthOptions& options);
std::string synth_generation_config_json(const SynthOptions& options);
// tiktoken lines for `ranks` tokens: the 256 bytes, then strings that each extend an earlier one by a byte.
std::string synth_vocabulary(int64_t ranks);
// The published control names at their published distances from the first control id.
std::string synth_tokenizer_config(int64_t first_control_id, int64_t max_length);

}  // namespace nibble::checkpoint
