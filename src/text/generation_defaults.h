// What `generation_config.json` of a checkpoint says about answering.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "text/chat.h"

namespace nibble::text {

struct GenerationDefaults {
  std::vector<int32_t> eos_token_ids;  // empty if the file names none
  std::optional<int64_t> max_length;   // tokens of prompt and answer
  // Our extension `thinking_effort`, for models trained otherwise than the published one: null means no effort message.
  std::optional<Effort> effort = Effort::kMax;
};

GenerationDefaults parse_generation_defaults(std::string_view json);
// A directory without the file gives the defaults above: it is not needed to run.
GenerationDefaults load_generation_defaults(const std::filesystem::path& directory);

}  // namespace nibble::text
