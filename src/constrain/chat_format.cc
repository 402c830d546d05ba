#include "constrain/chat_format.h"

namespace nibble::constrain {
namespace {

// <|open|>name<|sep|>, or <|close|>name<|sep|>
Grammar::State add_marker(Grammar& g, Grammar::State from, int32_t kind, std::string_view name) {
  const Grammar::State begin = g.add_state(), end = g.add_state(), behind = g.add_state();
  g.add_symbols(from, kind, kind, begin);
  g.add_text(begin, name, end);
  g.add_symbols(end, kSeparator, kSeparator, behind);
  return behind;
}

}  // namespace

void add_chat(Grammar& g, text::Channel channel, Grammar::State from, Grammar::Rule response, Grammar::State to) {
  Grammar::State at = from;
  if (channel == text::Channel::kThink) {
    const Grammar::State thinking = g.add_state();
    g.add_empty(from, thinking);
    g.add_symbols(thinking, 0, kBytes - 1, thinking);
    at = add_marker(g, add_marker(g, thinking, kClose, "think"), kOpen, "response");
  }
  const Grammar::State answered = g.add_state();
  g.add_call(at, response, answered);
  g.add_empty(add_marker(g, add_marker(g, answered, kClose, "response"), kClose, "message"), to);
}

Constraint constraint_of(const text::ResponseFormat& format) {
  switch (format.kind) {
    case text::ResponseFormat::Kind::kText: break;
    case text::ResponseFormat::Kind::kJsonObject: return {.kind = Constraint::Kind::kJson, .text = {}};
    case text::ResponseFormat::Kind::kJsonSchema: return {.kind = Constraint::Kind::kJsonSchema, .text = format.schema};
  }
  return {};
}

}  // namespace nibble::constrain
