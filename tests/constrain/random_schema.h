// Schemas at random, of everything that is supported, recursion included.
#pragma once

#include <nlohmann/json.hpp>

#include <random>

namespace nibble::constrain {

nlohmann::ordered_json random_schema(std::mt19937_64& random);

}  // namespace nibble::constrain
