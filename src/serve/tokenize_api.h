// POST /tokenize and /detokenize, in vLLM's form and llama-server's, told apart by the field that is there.
#pragma once

#include <string>

#include "serve/prepared.h"

namespace nibble::serve {

std::string tokenize(const Json& json, const Knowledge& knows);
std::string detokenize(const Json& json, const Knowledge& knows);
// POST /v1/messages/count_tokens
std::string count_tokens(const Json& json, const Knowledge& knows);

}  // namespace nibble::serve
