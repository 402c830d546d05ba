// From what a model wrote to whether it is right.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace nibble::eval {

// What the tokens show: of a chat's prompt the response, without its reasoning; otherwise all but control tokens.
// Valid UTF-8 whatever the tokens are.
std::string visible_text(std::span<const int32_t> prompt, std::span<const int32_t> tokens,
                         const text::Tokenizer& tokenizer);

// What follows the last "#### " (as GSM8K writes answers), normalised; nothing where there is no such mark.
std::optional<std::string> final_answer(std::string_view text);

// The same for a problem's own answer, which may be given with or without its working.
std::string expected_answer(std::string_view text);

}  // namespace nibble::eval
