#include "constrain/tool_calls.h"

#include <map>
#include <string>

#include "base/error.h"
#include "constrain/chat_format.h"
#include "constrain/json_schema.h"

namespace nibble::constrain {
namespace {

using State = Grammar::State;

constexpr size_t kMaxName = 1024;  // bytes: markers that are much longer are read as text
constexpr int kMaxIndexDigits = 9;

State add_text(Grammar& g, State from, std::string_view bytes) {
  const State to = g.add_state();
  g.add_text(from, bytes, to);
  return to;
}

// A number from 1: models count on from one turn to the next, so it is theirs to choose.
State add_index(Grammar& g, State from) {
  const State to = g.add_state();
  State at = g.add_state();
  g.add_symbols(from, '1', '9', at);
  for (int i = 1; i < kMaxIndexDigits; ++i) {
    g.add_empty(at, to);
    const State next = g.add_state();
    g.add_symbols(at, '0', '9', next);
    at = next;
  }
  g.add_empty(at, to);
  return to;
}

}  // namespace

void add_tool_call(Grammar& g, const JsonRules& rules, State from, const std::vector<CallConstraint::Tool>& tools,
                   State to) {
  State begin = g.add_state();
  const State end = g.add_state();
  g.add_symbols(from, kOpen, kOpen, begin);
  begin = add_text(g, begin, "call tool=\"");
  std::map<std::string, Grammar::Rule> rule_of;  // of a schema: many tools may have the same
  for (const CallConstraint::Tool& tool : tools) {
    const std::string name = text::escape_attribute(tool.name);
    if (name.size() > kMaxName) {
      throw Refusal({.what = "tools",
                     .seen = "a function's name of " + std::to_string(name.size()) + " bytes",
                     .rule = "a name that is to be held is at most 1024 bytes long",
                     .fix = "a shorter one"});
    }
    const auto [it, fresh] = rule_of.try_emplace(tool.parameters, 0);
    if (fresh) {
      it->second = g.add_rule();
      add_arguments(g, rules, g.start(it->second), tool.parameters.empty() ? "true" : tool.parameters,
                    "tools: parameters of " + tool.name, g.end(it->second));
    }
    State at = add_text(g, add_index(g, add_text(g, begin, name + "\" index=\"")), "\"");
    const State arguments = g.add_state();
    g.add_symbols(at, kSeparator, kSeparator, arguments);
    g.add_call(arguments, it->second, end);
  }
  g.add_empty(add_marker(g, end, kClose, "call"), to);
}

}  // namespace nibble::constrain
