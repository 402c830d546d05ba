// An independent reading of JSON schema, for tests: whether a parsed value is valid. Only what is supported.
#pragma once

#include <nlohmann/json.hpp>

namespace nibble::constrain {

bool is_valid(const nlohmann::json& value, const nlohmann::ordered_json& schema, const nlohmann::ordered_json& root);

}  // namespace nibble::constrain
