#include "constrain/compiler.h"

#include <algorithm>

#include "base/error.h"
#include "constrain/chat_format.h"
#include "constrain/json_grammar.h"
#include "constrain/json_schema.h"
#include "constrain/regex.h"

namespace nibble::constrain {
namespace {

// A schema longer than any that people write; what is longer only costs.
constexpr size_t kMaxText = size_t{1} << 20;

void add_constraint(Grammar& g, const Constraint& constraint, Grammar::Rule rule) {
  if (constraint.text.size() > kMaxText) {
    throw Refusal({.what = std::string(name_of(constraint.kind)),
                   .seen = std::to_string(constraint.text.size()) + " bytes",
                   .rule = "at most 1 MiB",
                   .fix = "a smaller one"});
  }
  switch (constraint.kind) {
    case Constraint::Kind::kNone: break;
    case Constraint::Kind::kJson: return g.add_call(g.start(rule), JsonRules(g).object, g.end(rule));
    case Constraint::Kind::kJsonSchema:
      return add_json_schema(g, JsonRules(g), g.start(rule), constraint.text, name_of(constraint.kind), g.end(rule));
    case Constraint::Kind::kRegex:
      return parse_regex(constraint.text, RegexMatch::kWhole, name_of(constraint.kind))
          .add_to(g, g.start(rule), g.end(rule));
  }
  throw ContractError("constrain: nothing to compile");
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
  const Grammar::Rule root = grammar.add_rule();
  if (channel == text::Channel::kNone) {
    add_constraint(grammar, constraint, root);
  } else {
    const Grammar::Rule response = grammar.add_rule();
    add_constraint(grammar, constraint, response);
    add_chat(grammar, channel, grammar.start(root), response, grammar.end(root));
  }
  grammar.finish(root);
  return std::make_shared<Compiled>(std::move(grammar), std::move(trie));
}

std::function<std::unique_ptr<TokenMask>()> Compiler::compile(const Constraint& constraint, text::Channel channel) {
  const std::lock_guard lock(mutex_);
  const Key key{constraint.kind, channel, constraint.text};
  const auto it = std::find_if(kept_.begin(), kept_.end(), [&](const Entry& e) { return e.key == key; });
  if (it != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, it);
  } else {
    if (!trie_) trie_ = make_trie(tokenizer_, ends_);
    kept_.push_front({key, constrain::compile(constraint, channel, trie_)});
    if (kept_.size() > kKept) kept_.pop_back();
  }
  return [compiled = kept_.front().compiled] { return make_mask(compiled); };
}

}  // namespace nibble::constrain
