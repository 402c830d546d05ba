#include "constrain/compiler.h"

#include <algorithm>

#include "base/error.h"
#include "constrain/chat_format.h"
#include "constrain/json_grammar.h"
#include "constrain/json_schema.h"
#include "constrain/regex.h"
#include "constrain/tool_calls.h"

namespace nibble::constrain {
namespace {

// A schema longer than any that people write; what is longer only costs.
constexpr size_t kMaxText = size_t{1} << 20;

void check_size(std::string_view what, const std::string& text) {
  if (text.size() <= kMaxText) return;
  throw Refusal({.what = std::string(what),
                 .seen = std::to_string(text.size()) + " bytes",
                 .rule = "at most 1 MiB",
                 .fix = "a smaller one"});
}

void add_constraint(Grammar& g, const JsonRules& json, const Constraint& constraint, Grammar::Rule rule) {
  check_size(name_of(constraint.kind), constraint.text);
  switch (constraint.kind) {
    case Constraint::Kind::kNone: break;
    case Constraint::Kind::kJson: return g.add_call(g.start(rule), json.object, g.end(rule));
    case Constraint::Kind::kJsonSchema:
      return add_json_schema(g, json, g.start(rule), constraint.text, name_of(constraint.kind), g.end(rule));
    case Constraint::Kind::kRegex:
      return parse_regex(constraint.text, RegexMatch::kWhole, name_of(constraint.kind))
          .add_to(g, g.start(rule), g.end(rule));
  }
  throw ContractError("constrain: nothing to compile");
}

void add_answer(Grammar& g, const JsonRules& json, const Constraint& constraint, text::Channel channel,
                Grammar::Rule rule) {
  ChatRules rules;
  if (constraint.kind != Constraint::Kind::kNone) add_constraint(g, json, constraint, *(rules.response = g.add_rule()));
  if (constraint.calls && !constraint.calls->tools.empty()) {
    for (const auto& tool : constraint.calls->tools) check_size("tools: parameters of " + tool.name, tool.parameters);
    rules.call = g.add_rule();
    rules.required = constraint.calls->required;
    rules.parallel = constraint.calls->parallel;
    add_tool_call(g, json, g.start(*rules.call), constraint.calls->tools, g.end(*rules.call));
  }
  add_chat(g, channel, g.start(rule), rules, g.end(rule));
}

}  // namespace

std::shared_ptr<const TokenTrie> make_trie(const text::Tokenizer& tokenizer, std::vector<int32_t> ends) {
  std::vector<std::pair<std::string_view, int32_t>> tokens;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.is_control(id)) tokens.emplace_back(tokenizer.bytes(id), id);
  }
  const text::ControlTokens& control = tokenizer.control();
  return std::make_shared<const TokenTrie>(std::move(tokens), std::vector{control.open, control.close, control.sep},
                                           std::move(ends), tokenizer.vocab_size());
}

std::shared_ptr<Compiled> compile(const Constraint& constraint, text::Channel channel,
                                  std::shared_ptr<const TokenTrie> trie) {
  Grammar grammar;
  const JsonRules json(grammar);
  const Grammar::Rule root = grammar.add_rule();
  if (channel != text::Channel::kNone) {
    add_answer(grammar, json, constraint, channel, root);
  } else if (!constraint.calls) {
    add_constraint(grammar, json, constraint, root);
  } else {
    throw Refusal({.what = "tool calls",
                   .seen = "a prompt that does not end where an assistant's message goes on",
                   .rule = "calls are held in a chat's answer only",
                   .fix = "add_generation_prompt true, or tool_choice auto"});
  }
  grammar.finish(root);
  return std::make_shared<Compiled>(std::move(grammar), std::move(trie));
}

std::function<std::unique_ptr<TokenMask>()> Compiler::compile(const Constraint& constraint, text::Channel channel) {
  const std::lock_guard lock(mutex_);
  const auto it = std::find_if(kept_.begin(), kept_.end(),
                               [&](const Entry& e) { return e.channel == channel && e.constraint == constraint; });
  if (it != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, it);
  } else {
    if (!trie_) trie_ = make_trie(tokenizer_, ends_);
    kept_.push_front({constraint, channel, constrain::compile(constraint, channel, trie_)});
    if (kept_.size() > kKept) kept_.pop_back();
  }
  return [compiled = kept_.front().compiled] { return make_mask(compiled); };
}

}  // namespace nibble::constrain
