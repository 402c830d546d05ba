// Values of one type: what each keyword of strings, numbers, arrays and objects adds to the grammar.
#include <algorithm>

#include "constrain/decimal_range.h"
#include "constrain/formats.h"
#include "constrain/regex.h"
#include "constrain/schema_compiler.h"
#include "text/json_text.h"
#include "text/utf8.h"

namespace nibble::constrain {

void SchemaCompiler::number(const Json& schema, const std::string& path, bool integer, State from, State to) {
  std::optional<Bound> low, high;
  const auto read = [&](const char* keyword, bool itself, std::optional<Bound>& bound, bool is_low) {
    if (!schema.contains(keyword)) return;
    const Json& literal = schema[keyword];
    if (!literal.is_number()) refuse(path + "/" + keyword, literal.dump() + ", which is no number");
    if (bound) {
      refuse(path, std::string("the keyword \"") + keyword + "\" beside its other form",
             is_low ? "minimum or exclusiveMinimum" : "maximum or exclusiveMaximum");
    }
    bound = Bound{.value = Decimal::parse(literal.dump()), .itself = itself};
  };
  read("minimum", true, low, true);
  read("exclusiveMinimum", false, low, true);
  read("maximum", true, high, false);
  read("exclusiveMaximum", false, high, false);
  if (integer) return add_integers(g_, from, low, high, to);
  if (!low && !high) return g_.add_call(from, rules_.number, to);
  add_numbers(g_, from, low, high, to);
}

void SchemaCompiler::string(const Json& schema, const std::string& path, Form form, State from, State to) {
  const int64_t least = count_at(schema, "minLength", path, 0), most = count_at(schema, "maxLength", path, -1);
  const bool pattern = schema.contains("pattern"), format = schema.contains("format"), bounded = least > 0 || most >= 0;
  const bool raw = form == Form::kString;
  if (!pattern && !format && !bounded) return raw ? any(form, from, to) : g_.add_call(from, rules_.string, to);
  if (pattern && format) refuse(path, "pattern and format at once", "a pattern that says what the format does");
  CharAutomaton inside;
  if (pattern) {
    if (!schema["pattern"].is_string()) refuse(path + "/pattern", "no string");
    inside = parse_regex(schema["pattern"].get<std::string>(), RegexMatch::kSearch, what_ + ", pattern at " + path);
  } else if (format) {
    const auto known =
        schema["format"].is_string() ? format_pattern(schema["format"].get<std::string>()) : std::nullopt;
    if (!known) refuse(path, "the format " + schema["format"].dump(), format_names());
    inside = parse_regex(*known, RegexMatch::kWhole, what_);
  } else {
    inside = any_characters();
  }
  if (most >= 0 && most < least) return;  // nothing fits
  if (bounded) inside = inside.with_length(least, most >= 0 ? std::optional(most) : std::nullopt);
  if (raw) return inside.add_to(g_, from, to);
  const State open = text("\"", from), close = g_.add_state();
  inside.add_to_json(g_, open, close, rules_.character);
  g_.add_text(close, "\"", to);
}

template <class AddItem>
void SchemaCompiler::members(bool first, int64_t least, std::optional<int64_t> most, char close, State from, State to,
                             const AddItem& add_item) {
  const auto end = [&](State s, bool any) { g_.add_text(any ? call(rules_.space, s) : s, {&close, 1}, to); };
  const auto one_more = [&](State s, bool any) {
    const State item = any ? call(rules_.space, text(",", s)) : s, behind = g_.add_state();
    add_item(item, behind);
    return behind;
  };
  State at = from;
  bool any = !first;
  for (int64_t i = 0; i < least; ++i, any = true) at = one_more(at, any);
  if (most) {
    for (int64_t i = least; i < *most; ++i, any = true) {
      end(at, any);
      at = one_more(at, any);
    }
    return end(at, any);
  }
  if (!any) {
    end(at, false);
    at = one_more(at, false);
  }
  g_.add_empty(one_more(at, true), at);
  end(at, true);
}

void SchemaCompiler::array(const Json& schema, const std::string& path, State from, State to) {
  static const Json kAny = true;
  const int64_t least = count_at(schema, "minItems", path, 0), most = count_at(schema, "maxItems", path, -1);
  if (schema.contains("uniqueItems") && schema["uniqueItems"] != false) {
    refuse(path, "the keyword \"uniqueItems\"", "maxItems, or an enum of lists");
  }
  if (schema.contains("items") && schema["items"].is_array()) {
    refuse(path, "the keyword \"items\" with a list", "prefixItems, as drafts since 2020-12 call it");
  }
  const Json& items = schema.contains("items") ? schema["items"] : kAny;
  State at = call(rules_.space, text("[", from));
  int64_t placed = 0;
  if (schema.contains("prefixItems")) {
    if (!schema["prefixItems"].is_array()) refuse(path + "/prefixItems", "no list of schemas");
    for (const Json& item : schema["prefixItems"]) {
      if (placed >= least) {  // the list may end before it
        g_.add_text(placed > 0 ? call(rules_.space, at) : at, "]", to);
      }
      if (placed == most) return;
      if (placed > 0) at = call(rules_.space, text(",", at));
      const State behind = g_.add_state();
      value(item, path + "/prefixItems/" + std::to_string(placed), Form::kJson, at, behind);
      at = behind;
      ++placed;
    }
  }
  if (most >= 0 && most < std::max(least, placed)) return;  // nothing fits
  const int64_t more = std::max<int64_t>(0, least - placed);
  if (items == false) {
    if (more == 0) g_.add_text(placed > 0 ? call(rules_.space, at) : at, "]", to);
    return;
  }
  const Grammar::Rule rule = rule_for(items, path + "/items", Form::kJson);
  members(placed == 0, more, most >= 0 ? std::optional(most - placed) : std::nullopt, ']', at, to,
          [&](State item, State behind) { g_.add_call(item, rule, behind); });
}

SchemaCompiler::Object SchemaCompiler::read_object(const Json& schema, const std::string& path) const {
  static const Json kAny = true;
  const auto list = [&](const char* keyword, auto kind) -> const Json& {
    static const Json kNone;
    if (!schema.contains(keyword)) return kNone;
    if (!(schema[keyword].*kind)()) refuse(path + "/" + keyword, schema[keyword].dump());
    return schema[keyword];
  };
  const Json& properties = list("properties", &Json::is_object);
  const Json& required = list("required", &Json::is_array);
  const Json& additional = schema.contains("additionalProperties") ? schema["additionalProperties"] : kAny;
  const bool open = schema.contains("additionalProperties") ? additional != false : !schema.contains("properties");
  Object out{.members = {},
             .others = open ? &additional : nullptr,
             .others_path = path + "/additionalProperties",
             .least = count_at(schema, "minProperties", path, 0),
             .most = count_at(schema, "maxProperties", path, -1)};
  if ((!properties.empty() || !required.empty()) &&
      (out.least > static_cast<int64_t>(required.size()) ||
       (out.most >= 0 && (open || out.most < static_cast<int64_t>(properties.size()))))) {
    refuse(path, "bounds on the number of properties beside named ones", "required, or additionalProperties false");
  }
  for (const auto& [key, of] : properties.items()) {
    const bool must = std::find(required.begin(), required.end(), Json(key)) != required.end();
    out.members.push_back({key, &of, path + "/properties/" + key, must});
  }
  for (const Json& key : required) {
    if (!key.is_string()) refuse(path + "/required", key.dump() + ", which is no name");
    const auto name = key.get<std::string>();
    const bool known =
        std::any_of(out.members.begin(), out.members.end(), [&](const Member& m) { return m.key == name; });
    if (!known) out.members.push_back({name, &additional, out.others_path, true});
  }
  return out;
}

// Members come in the order that the schema has them in, then those it does not name. `none` and `some` follow the
// declared ones in step: has any come before?
void SchemaCompiler::object(const Json& schema, const std::string& path, State from, State to) {
  const Object o = read_object(schema, path);
  State none = call(rules_.space, text("{", from)), some = g_.add_state();
  for (const Member& m : o.members) {
    const State begin = g_.add_state(), next_none = g_.add_state(), next_some = g_.add_state();
    g_.add_empty(none, begin);
    g_.add_empty(call(rules_.space, text(",", some)), begin);
    value(*m.schema, m.path, Form::kJson, call(rules_.space, text(text::json_quoted(m.key) + ":", begin)), next_some);
    if (!m.required) g_.add_empty(none, next_none), g_.add_empty(some, next_some);
    none = next_none;
    some = next_some;
  }
  const auto other = [&](State item, State behind) {
    const State key_end = g_.add_state();
    other_key(o.members, item, key_end);
    g_.add_call(call(rules_.space, text(":", key_end)), rule_for(*o.others, o.others_path, Form::kJson), behind);
  };
  if (o.members.empty()) {
    if (!o.others) return o.least == 0 ? g_.add_text(none, "}", to) : void();
    if (o.most >= 0 && o.most < o.least) return;
    return members(true, o.least, o.most >= 0 ? std::optional(o.most) : std::nullopt, '}', none, to, other);
  }
  g_.add_text(none, "}", to);
  g_.add_text(call(rules_.space, some), "}", to);
  if (!o.others) return;
  const State begin = g_.add_state();
  g_.add_empty(none, begin);
  g_.add_empty(call(rules_.space, text(",", some)), begin);
  other(begin, some);
}

void SchemaCompiler::other_key(const std::vector<Member>& known, State from, State to) {
  if (known.empty()) return g_.add_call(from, rules_.string, to);
  const State open = text("\"", from), close = g_.add_state();
  keys_but(known).add_to_json(g_, open, close, rules_.character);
  g_.add_text(close, "\"", to);
}

// A key that is none of those: it leaves their tree of characters somewhere, or ends within it. In the tree characters
// have one form only, so no key slips through by an escape.
CharAutomaton SchemaCompiler::keys_but(const std::vector<Member>& known) {
  CharAutomaton keys;
  const auto free = keys.add_state(), end = keys.add_state();
  keys.add(free, {0, kLastChar}, free);
  keys.add_empty(free, end);
  struct Prefix {
    std::map<char32_t, size_t> next;
    bool whole = false;
    CharAutomaton::State state = 0;
  };
  std::vector<Prefix> tree(1);
  for (const Member& member : known) {
    size_t at = 0;
    for (std::string_view rest = member.key; !rest.empty();) {
      const text::Utf8Char c = text::decode_utf8(rest);
      rest.remove_prefix(static_cast<size_t>(c.length));
      const auto [it, fresh] = tree[at].next.try_emplace(c.code_point, tree.size());
      const size_t next = it->second;
      if (fresh) tree.emplace_back();
      at = next;
    }
    tree[at].whole = true;
  }
  for (Prefix& p : tree) p.state = keys.add_state();
  for (const Prefix& p : tree) {
    std::vector<CharRange> taken = {{0, 0}};  // NUL: left out, so that no range is that of every character
    for (const auto& [c, next] : p.next) {
      taken.push_back({c, c});
      keys.add(p.state, {c, c}, tree[next].state);
    }
    for (const CharRange& r : complement(taken)) keys.add(p.state, r, free);
    if (!p.whole) keys.add_empty(p.state, end);
  }
  keys.start = tree[0].state;
  keys.end = end;
  return keys;
}

}  // namespace nibble::constrain
