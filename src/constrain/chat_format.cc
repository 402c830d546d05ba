#include "constrain/chat_format.h"

#include <algorithm>

namespace nibble::constrain {
namespace {

using State = Grammar::State;

State add_any_text(Grammar& g, State from) {
  const State inside = g.add_state();
  g.add_empty(from, inside);
  g.add_symbols(inside, 0, kBytes - 1, inside);
  return inside;
}

void add_calls(Grammar& g, State from, const ChatRules& rules, State to) {
  const State begin = add_marker(g, from, kOpen, "tools"), behind = g.add_state();
  g.add_call(begin, *rules.call, behind);
  if (rules.parallel) g.add_empty(behind, begin);
  g.add_empty(add_marker(g, add_marker(g, behind, kClose, "tools"), kClose, "message"), to);
}

// What a function that declares no parameters takes.
constexpr const char* kNoArguments = R"({"type":"object","properties":{}})";

std::vector<CallConstraint::Tool> callable(const text::ChatRequest& chat, bool strict) {
  std::vector<CallConstraint::Tool> out;
  const text::ToolChoice& choice = chat.options.tool_choice;
  const auto add = [&](const text::Tool& tool) {
    if (choice.kind == text::ToolChoice::Kind::kNamed && tool.name != choice.name) return;
    out.push_back({.name = tool.name, .parameters = {}});
    if (!tool.strict.value_or(strict)) return;
    out.back().parameters = tool.parameters.empty() ? kNoArguments : tool.parameters;
  };
  for (const text::Tool& tool : chat.options.tools) add(tool);
  for (const text::Message& message : chat.messages) {
    for (const text::Tool& tool : message.tools) add(tool);
  }
  return out;
}

Constraint constraint_of(const text::ResponseFormat& format) {
  switch (format.kind) {
    case text::ResponseFormat::Kind::kText: break;
    case text::ResponseFormat::Kind::kJsonObject: return {.kind = Constraint::Kind::kJson};
    case text::ResponseFormat::Kind::kJsonSchema: return {.kind = Constraint::Kind::kJsonSchema, .text = format.schema};
  }
  return {};
}

}  // namespace

State add_marker(Grammar& g, State from, int32_t kind, std::string_view text) {
  const State begin = g.add_state(), end = g.add_state(), behind = g.add_state();
  g.add_symbols(from, kind, kind, begin);
  g.add_text(begin, text, end);
  g.add_symbols(end, kSeparator, kSeparator, behind);
  return behind;
}

void add_chat(Grammar& g, text::Channel channel, State from, const ChatRules& rules, State to) {
  State begin = from;  // of the response's text
  if (channel == text::Channel::kThink) {
    const State thought = add_marker(g, add_any_text(g, from), kClose, "think");
    if (rules.call && (rules.required || rules.response)) add_calls(g, thought, rules, to);
    begin = add_marker(g, thought, kOpen, "response");
  }
  if (rules.call && rules.response) add_calls(g, add_marker(g, begin, kClose, "response"), rules, to);
  if (rules.required && rules.response) return;
  State end = g.add_state();
  if (rules.response) {
    g.add_call(begin, *rules.response, end);
  } else {
    end = add_any_text(g, begin);
  }
  const State answered = add_marker(g, end, kClose, "response");
  if (rules.call && !rules.response) add_calls(g, answered, rules, to);
  if (!rules.required) g.add_empty(add_marker(g, answered, kClose, "message"), to);
}

Constraint constraint_of(const text::ChatRequest& chat, Constraint response) {
  using Choice = text::ToolChoice::Kind;
  Constraint out = response.none() ? constraint_of(chat.options.response_format) : std::move(response);
  const Choice choice = chat.options.tool_choice.kind;
  const bool required = choice == Choice::kRequired || choice == Choice::kNamed;
  std::vector<CallConstraint::Tool> tools = callable(chat, required);
  if (tools.empty()) return out;
  const bool strict =
      std::any_of(tools.begin(), tools.end(), [](const auto& tool) { return !tool.parameters.empty(); });
  const bool parallel = chat.options.parallel_tool_calls, free = out.kind == Constraint::Kind::kNone;
  if (choice == Choice::kNone) {
    out.calls.emplace();
  } else if (required || strict || !parallel || !free) {
    out.calls = {.tools = std::move(tools), .required = required, .parallel = parallel};
  }
  return out;
}

}  // namespace nibble::constrain
