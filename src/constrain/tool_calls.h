// A tool call as a grammar: an element of K3's chat format, whose arguments fit the tool's schema.
#pragma once

#include <vector>

#include "constrain/grammar.h"
#include "constrain/json_grammar.h"
#include "nibble/constraint.h"

namespace nibble::constrain {

// Adds one call of one of the tools between two states. Throws Refusal.
void add_tool_call(Grammar& grammar, const JsonRules& rules, Grammar::State from,
                   const std::vector<CallConstraint::Tool>& tools, Grammar::State to);

}  // namespace nibble::constrain
