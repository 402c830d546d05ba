// Regular expressions: the subset that is regular, as docs/constrained.md lists it.
#pragma once

#include <string_view>

#include "constrain/char_automaton.h"

namespace nibble::constrain {

enum class RegexMatch : uint8_t {
  kWhole,   // the whole text; ^ and $ at its ends say what holds anyway
  kSearch,  // somewhere in the text, but where ^ or $ holds it: `pattern` of JSON schema
};

// `what` names the expression in refusals. Throws Refusal for what is malformed, not regular, or not supported.
CharAutomaton parse_regex(std::string_view pattern, RegexMatch match, std::string_view what);

}  // namespace nibble::constrain
