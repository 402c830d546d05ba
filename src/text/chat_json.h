// A chat whose JSON has been parsed: for who reads more from it than the conversation.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string_view>

#include "text/chat.h"

namespace nibble::text {

// Refuses what is not JSON, not UTF-8, or nested deeper than kMaxJsonDepth: whoever walks the values is safe.
nlohmann::ordered_json parse_json(std::string_view json);
// parse_chat() of what it parsed.
ChatRequest read_chat(const nlohmann::ordered_json& root, const RenderOptions& defaults);

}  // namespace nibble::text
