// JSON schema as a grammar: the subset that docs/constrained.md lists. Anything else is refused by keyword and place.
#pragma once

#include <string_view>

#include "constrain/grammar.h"
#include "constrain/json_grammar.h"

namespace nibble::constrain {

inline constexpr int64_t kMaxSchemaNodes = 4096;  // subschemas, references followed once each

// Adds values of the schema between two states. `what` names the schema in refusals. Throws Refusal.
void add_json_schema(Grammar& grammar, const JsonRules& rules, Grammar::State from, std::string_view schema,
                     std::string_view what, Grammar::State to);
// The same of a tool's arguments: the objects that fit, each member an element of K3's chat format. Of many members the
// order is the schema's, of few it is free.
void add_arguments(Grammar& grammar, const JsonRules& rules, Grammar::State from, std::string_view schema,
                   std::string_view what, Grammar::State to);

}  // namespace nibble::constrain
