// A tool's arguments, as K3 writes them: an element each, with the type of its value beside its name.
#include <algorithm>

#include "constrain/chat_format.h"
#include "constrain/schema_compiler.h"

namespace nibble::constrain {
namespace {

constexpr size_t kMostInAnyOrder = 6;  // takes a state for each set of them
constexpr size_t kMaxKey = 1024;       // bytes: markers that are much longer are read as text

constexpr Form kForms[] = {Form::kString, Form::kNumber, Form::kBoolean, Form::kNull, Form::kObject, Form::kArray};

// Told without a look at what it refers to: the schema names its types, and this is none of them.
bool excludes(const Json& schema, Form form) {
  if (!schema.is_object() || !schema.contains("type")) return false;
  const Json& type = schema["type"];
  const auto is_it = [&](const Json& name) {
    return name == type_of(form) || (name == "integer" && form == Form::kNumber);
  };
  return type.is_array() ? std::none_of(type.begin(), type.end(), is_it) : !is_it(type);
}

}  // namespace

void SchemaCompiler::arguments(const Json& schema, const std::string& path, State from, State to) {
  const Object o = read_object(schema, path);
  if (o.least > static_cast<int64_t>(o.members.size()) || (o.others && o.most >= 0)) {
    refuse(path, "bounds on the number of arguments", "arguments that are named, and required");
  }
  std::vector<Grammar::Rule> rules;
  for (const Member& m : o.members) rules.push_back(argument(m));
  const size_t n = rules.size();
  const bool any_order = n <= kMostInAnyOrder;
  // A state for each set of those that have come, or for each number of those that have had their turn.
  std::vector<State> at;
  for (size_t i = 0; i < (any_order ? size_t{1} << n : n + 1); ++i) at.push_back(g_.add_state());
  g_.add_empty(from, at.front());
  for (size_t i = 0; i < n && !any_order; ++i) {
    g_.add_call(at[i], rules[i], at[i + 1]);
    if (!o.members[i].required) g_.add_empty(at[i], at[i + 1]);
  }
  const Grammar::Rule other = o.others ? other_argument(o) : -1;
  for (size_t set = any_order ? 0 : n; set < at.size(); ++set) {
    bool complete = true;
    for (size_t i = 0; i < n && any_order; ++i) {
      if ((set >> i & 1) != 0) continue;
      complete = complete && !o.members[i].required;
      g_.add_call(at[set], rules[i], at[set | size_t{1} << i]);
    }
    if (o.others) g_.add_call(at[set], other, at[set]);
    if (complete) g_.add_empty(at[set], to);
  }
}

Grammar::Rule SchemaCompiler::argument(const Member& member) {
  const std::string key = text::escape_attribute(member.key);
  if (key.size() > kMaxKey) refuse(member.path, "a name of " + std::to_string(key.size()) + " bytes", "a shorter one");
  const Grammar::Rule rule = g_.add_rule();
  const State begin = g_.add_state();
  g_.add_symbols(g_.start(rule), kOpen, kOpen, begin);
  argument_value(*member.schema, member.path, text("argument key=\"" + key, begin), g_.end(rule));
  return rule;
}

Grammar::Rule SchemaCompiler::other_argument(const Object& object) {
  const Grammar::Rule rule = g_.add_rule();
  const State begin = g_.add_state(), behind_key = g_.add_state();
  g_.add_symbols(g_.start(rule), kOpen, kOpen, begin);
  keys_but(object.members).add_to_attribute(g_, text("argument key=\"", begin), behind_key);
  argument_value(*object.others, object.others_path, behind_key, g_.end(rule));
  return rule;
}

// From the end of the key. A type that the schema has no value of leads nowhere, and is thrown out with all such
// states.
void SchemaCompiler::argument_value(const Json& schema, const std::string& path, State from, State to) {
  const State typed = text("\" type=\"", from), written = g_.add_state();
  for (const Form form : kForms) {
    if (excludes(schema, form)) continue;
    const State begin = g_.add_state();
    g_.add_symbols(text(std::string(type_of(form)) + "\"", typed), kSeparator, kSeparator, begin);
    value(schema, path, form, begin, written);
  }
  g_.add_empty(add_marker(g_, written, kClose, "argument"), to);
}

}  // namespace nibble::constrain
