#include "text/generation_defaults.h"

#include <nlohmann/json.hpp>

#include <fstream>
#include <iterator>

#include "base/error.h"

namespace nibble::text {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(std::string field, std::string seen, std::string rule) {
  throw Refusal({.what = "generation_config.json" + std::move(field),
                 .seen = std::move(seen),
                 .rule = std::move(rule),
                 .fix = "correct the file, or download generation_config.json of this checkpoint again"});
}

int32_t read_id(const Json& value) {
  if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() > INT32_MAX) {
    refuse(": eos_token_id", value.dump(), "eos_token_id is a token id or a list of them");
  }
  return value.get<int32_t>();
}

std::optional<Effort> read_effort(const Json& value) {
  if (value.is_null()) return std::nullopt;
  if (value == "low") return Effort::kLow;
  if (value == "high") return Effort::kHigh;
  if (value == "max") return Effort::kMax;
  refuse(": thinking_effort", value.dump(), "thinking_effort is low, high, max or null");
}

}  // namespace

GenerationDefaults parse_generation_defaults(std::string_view json) {
  const Json root = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) refuse("", "not a JSON object", "generation defaults are read from a JSON object");
  GenerationDefaults defaults;
  if (const auto eos = root.find("eos_token_id"); eos != root.end() && !eos->is_null()) {
    if (!eos->is_array()) {
      defaults.eos_token_ids = {read_id(*eos)};
    } else {
      for (const Json& id : *eos) defaults.eos_token_ids.push_back(read_id(id));
    }
  }
  if (const auto length = root.find("max_length"); length != root.end() && !length->is_null()) {
    if (!length->is_number_integer() || length->get<int64_t>() <= 0) {
      refuse(": max_length", length->dump(), "max_length is a positive number of tokens");
    }
    defaults.max_length = length->get<int64_t>();
  }
  if (const auto effort = root.find("thinking_effort"); effort != root.end()) defaults.effort = read_effort(*effort);
  return defaults;
}

GenerationDefaults load_generation_defaults(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "generation_config.json";
  if (!std::filesystem::exists(path)) return {};
  std::ifstream file(path, std::ios::binary);
  return parse_generation_defaults(std::string(std::istreambuf_iterator<char>(file), {}));
}

}  // namespace nibble::text
