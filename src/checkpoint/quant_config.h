// The quantization_config of a checkpoint: only read to refuse what no tensor of ours could be, never to decide what is
// quantised. Its ignore list is known to be incomplete; the tensors decide.
#pragma once

#include <string>

namespace nibble::checkpoint {

class ConfigObject;

// `owner` is the object that may hold the key. Returns what the declaration calls itself, or "none".
std::string check_quantization(const ConfigObject& owner);

}  // namespace nibble::checkpoint
