#include "constrain/json_schema.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "constrain/schema_compiler.h"
#include "text/json_text.h"

namespace nibble::constrain {
namespace {

// Say nothing of what a value is.
const std::set<std::string_view> kAnnotations = {"title",     "description", "default",    "examples",   "example",
                                                 "$schema",   "$id",         "$comment",   "deprecated", "readOnly",
                                                 "writeOnly", "$defs",       "definitions"};

const std::map<std::string_view, std::set<std::string_view>> kByType = {
    {"string", {"minLength", "maxLength", "pattern", "format"}},
    {"integer", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}},
    {"number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}},
    {"array", {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"}},
    {"object", {"properties", "required", "additionalProperties", "minProperties", "maxProperties"}},
    {"boolean", {}},
    {"null", {}},
};

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size() &&
                        std::isxdigit(static_cast<uint8_t>(text[i + 1])) != 0 &&
                        std::isxdigit(static_cast<uint8_t>(text[i + 2])) != 0;
    out += escape ? static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16)) : text[i];
    i += escape ? 2 : 0;
  }
  return out;
}

const char* type_name(const Json& value) {
  if (value.is_number()) return value.is_number_integer() ? "integer" : "number";
  return value.type_name();
}

bool is_of_type(const Json& value, const std::string& type) {
  return type == type_name(value) || (type == "number" && value.is_number()) ||
         (type == "integer" && value.is_number_float() && std::abs(value.get<double>()) < 1e15 &&
          value.get<double>() == static_cast<double>(value.get<int64_t>()));
}

Json parse_schema(std::string_view schema, std::string_view what) {
  if (!text::is_json(schema)) {
    throw Refusal({.what = std::string(what),
                   .seen = "no JSON",
                   .rule = "a schema is one JSON value, at most 128 levels deep",
                   .fix = R"({"type": "object", "properties": {"name": {"type": "string"}}})"});
  }
  Json out = Json::parse(schema, nullptr, /*allow_exceptions=*/false);
  if (out.is_discarded()) {
    throw Refusal({.what = std::string(what),
                   .seen = "a number beyond the range of a double",
                   .rule = "numbers of a schema are doubles, as in most JSON parsers",
                   .fix = R"({"type": "number", "maximum": 1000})"});
  }
  return out;
}

}  // namespace

void add_json_schema(Grammar& grammar, const JsonRules& rules, Grammar::State from, std::string_view schema,
                     std::string_view what, Grammar::State to) {
  const Json root = parse_schema(schema, what);
  SchemaCompiler(grammar, rules, root, what).compile(Form::kJson, from, to);
}

void add_arguments(Grammar& grammar, const JsonRules& rules, Grammar::State from, std::string_view schema,
                   std::string_view what, Grammar::State to) {
  const Json root = parse_schema(schema, what);
  SchemaCompiler(grammar, rules, root, what).compile(Form::kArguments, from, to);
}

std::string_view type_of(Form form) {
  switch (form) {
    case Form::kJson: return "";
    case Form::kString: return "string";
    case Form::kNumber: return "number";
    case Form::kBoolean: return "boolean";
    case Form::kNull: return "null";
    case Form::kArray: return "array";
    case Form::kArguments:
    case Form::kObject: return "object";
  }
  return "";
}

bool has_form(std::string_view type, Form form) {
  return form == Form::kJson || type == type_of(form) || (type == "integer" && form == Form::kNumber);
}

void SchemaCompiler::compile(Form form, State from, State to) {
  value(root_, "#", form, from, to);
  while (!pending_.empty()) {
    const Pending next = pending_.front();
    pending_.pop_front();
    value(*next.schema, next.path, next.form, g_.start(next.rule), g_.end(next.rule));
  }
}

void SchemaCompiler::refuse(const std::string& path, const std::string& seen, const char* fix) const {
  throw Refusal({.what = what_,
                 .seen = seen + " at " + path,
                 .rule = "what a schema says is held or refused, never ignored",
                 .fix = fix != nullptr ? fix : "docs/constrained.md has what is supported"});
}

SchemaCompiler::State SchemaCompiler::call(Grammar::Rule rule, State from) {
  const State to = g_.add_state();
  g_.add_call(from, rule, to);
  return to;
}

SchemaCompiler::State SchemaCompiler::text(std::string_view bytes, State from) {
  const State to = g_.add_state();
  g_.add_text(from, bytes, to);
  return to;
}

Grammar::Rule SchemaCompiler::rule_for(const Json& schema, const std::string& path, Form form) {
  const auto [it, fresh] = rule_of_.try_emplace({&schema, form}, 0);
  if (fresh) {
    it->second = g_.add_rule();
    pending_.push_back({it->second, &schema, path, form});
  }
  return it->second;
}

void SchemaCompiler::value(const Json& schema, const std::string& path, Form form, State from, State to) {
  if (++nodes_ > kMaxSchemaNodes) refuse(path, "subschema number " + std::to_string(nodes_), "a smaller schema");
  if (schema.is_boolean()) {
    if (schema.get<bool>()) any(form, from, to);
    return;  // false: nothing fits
  }
  if (!schema.is_object()) refuse(path, "a schema that is neither an object nor a boolean");
  if (schema.contains("$ref")) return reference(schema, path, form, from, to);
  for (const char* keyword : {"anyOf", "oneOf", "allOf"}) {
    if (schema.contains(keyword)) return choice(keyword, schema, path, form, from, to);
  }
  if (schema.contains("enum") || schema.contains("const")) return literals(schema, path, form, from, to);
  const std::vector<std::string> types = types_of(schema, path);
  check_keywords(schema, path, types);
  if (types.empty()) return any(form, from, to);
  const bool any_number = std::find(types.begin(), types.end(), "number") != types.end();
  for (const std::string& type : types) {
    if ((type == "integer" && any_number) || !has_form(type, form)) continue;
    typed(type, schema, path, form, from, to);
  }
}

void SchemaCompiler::any(Form form, State from, State to) {
  static const Json kOpenObject = Json::object();
  switch (form) {
    case Form::kJson: return g_.add_call(from, rules_.value, to);
    case Form::kArguments: return arguments(kOpenObject, "#", from, to);
    case Form::kString: return any_characters().add_to(g_, from, to);
    case Form::kNumber: return g_.add_call(from, rules_.number, to);
    case Form::kObject: return g_.add_call(from, rules_.object, to);
    case Form::kArray: return g_.add_call(from, rules_.array, to);
    case Form::kNull:
    case Form::kBoolean: return typed(std::string(type_of(form)), kOpenObject, "#", form, from, to);
  }
}

// What `type` says; without it, the type that the other keywords are about; none: any.
std::vector<std::string> SchemaCompiler::types_of(const Json& schema, const std::string& path) const {
  std::vector<std::string> out;
  const auto add = [&](const Json& name) {
    if (!name.is_string() || !kByType.contains(name.get<std::string>())) {
      refuse(path + "/type", "the type " + name.dump(), "string, number, integer, boolean, null, array or object");
    }
    out.push_back(name.get<std::string>());
  };
  if (schema.contains("type")) {
    const Json& type = schema["type"];
    if (!type.is_array()) {
      add(type);
    } else {
      for (const Json& name : type) add(name);
      if (type.empty()) refuse(path + "/type", "an empty list of types");
    }
    return out;
  }
  for (const char* type : {"object", "array", "string", "number"}) {
    const auto& keywords = kByType.at(type);
    if (std::any_of(schema.items().begin(), schema.items().end(),
                    [&](const auto& item) { return keywords.contains(item.key()); })) {
      out.push_back(type);
    }
  }
  return out;
}

void SchemaCompiler::check_keywords(const Json& schema, const std::string& path,
                                    const std::vector<std::string>& types) const {
  for (const auto& item : schema.items()) {
    const std::string& key = item.key();
    if (key == "type" || kAnnotations.contains(key)) continue;
    const bool known = std::any_of(types.begin(), types.end(),
                                   [&](const std::string& type) { return kByType.at(type).contains(key); });
    if (!known) refuse(path, "the keyword " + quoted(key));
  }
}

void SchemaCompiler::typed(const std::string& type, const Json& schema, const std::string& path, Form form, State from,
                           State to) {
  if (form == Form::kArguments) return arguments(schema, path, from, to);
  if (type == "string") return string(schema, path, form, from, to);
  if (type == "integer" || type == "number") return number(schema, path, type == "integer", from, to);
  if (type == "array") return array(schema, path, from, to);
  if (type == "object") return object(schema, path, from, to);
  if (type == "null") return g_.add_text(from, "null", to);
  g_.add_text(from, "true", to);
  g_.add_text(from, "false", to);
}

// The values themselves, those of another type than the schema's left out.
void SchemaCompiler::literals(const Json& schema, const std::string& path, Form form, State from, State to) {
  if (form == Form::kArguments) refuse(path, "enum or const of all arguments", "enum or const of each");
  for (const auto& [key, unused] : schema.items()) {
    if (key == "enum" || key == "const" || key == "type" || kAnnotations.contains(key)) continue;
    refuse(path, "the keyword " + quoted(key) + " beside enum or const", "the values that are left, in enum");
  }
  if (schema.contains("enum") && schema.contains("const")) refuse(path, "enum and const at once");
  if (schema.contains("enum") && !schema["enum"].is_array()) refuse(path + "/enum", "no list of values");
  const std::vector<std::string> types = types_of(schema, path);
  const auto add = [&](const Json& literal) {
    const bool fits = types.empty() || std::any_of(types.begin(), types.end(),
                                                   [&](const std::string& type) { return is_of_type(literal, type); });
    if (!fits || !has_form(type_name(literal), form)) return;
    g_.add_text(from, form == Form::kString ? literal.get<std::string>() : literal.dump(), to);
  };
  if (schema.contains("const")) return add(schema["const"]);
  for (const Json& literal : schema["enum"]) add(literal);
}

const Json& SchemaCompiler::target(const std::string& reference, const std::string& path) const {
  if (!reference.starts_with('#'))
    refuse(path + "/$ref", "a reference to " + quoted(reference), "a reference within the schema, as #/$defs/name");
  try {
    return root_.at(Json::json_pointer(percent_decoded(reference.substr(1))));
  } catch (const nlohmann::json::exception&) {
    refuse(path + "/$ref", "a reference to " + quoted(reference) + ", which is not there",
           "a reference within the schema, as #/$defs/name");
  }
}

void SchemaCompiler::reference(const Json& schema, const std::string& path, Form form, State from, State to) {
  for (const auto& [key, unused] : schema.items()) {
    if (key != "$ref" && !kAnnotations.contains(key)) {
      refuse(path, "the keyword " + quoted(key) + " beside $ref", "the keyword within what is referred to");
    }
  }
  if (!schema["$ref"].is_string()) refuse(path + "/$ref", "no string");
  const auto name = schema["$ref"].get<std::string>();
  g_.add_call(from, rule_for(target(name, path), name, form), to);
}

void SchemaCompiler::choice(const char* keyword, const Json& schema, const std::string& path, Form form, State from,
                            State to) {
  for (const auto& [key, unused] : schema.items()) {
    if (key == keyword || kAnnotations.contains(key)) continue;
    refuse(path, "the keyword " + quoted(key) + " beside " + keyword, "the keyword within each alternative");
  }
  const Json& parts = schema[keyword];
  const std::string here = path + "/" + keyword;
  if (!parts.is_array() || parts.empty()) refuse(here, "no list of schemas");
  if (std::string_view(keyword) == "allOf" && parts.size() > 1) {
    refuse(path, "the keyword \"allOf\" with more than one schema", "one schema that says what all of them do");
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    for (size_t j = 0; j < i && std::string_view(keyword) == "oneOf"; ++j) {
      if (apart(parts[j], parts[i], here, 0)) continue;
      refuse(here, "alternatives " + std::to_string(j) + " and " + std::to_string(i) + " that one value may both fit",
             "anyOf; or a required property whose const differs");
    }
    value(parts[i], here + "/" + std::to_string(i), form, from, to);
  }
}

int64_t SchemaCompiler::count_at(const Json& schema, const char* keyword, const std::string& path,
                                 int64_t otherwise) const {
  if (!schema.contains(keyword)) return otherwise;
  const Json& n = schema[keyword];
  const bool whole =
      n.is_number_integer() || (n.is_number_float() && n.get<double>() >= 0 && n.get<double>() < 1e9 &&
                                n.get<double>() == static_cast<double>(static_cast<int64_t>(n.get<double>())));
  if (!whole || n.get<double>() < 0 || n.get<double>() > 1e9) {
    refuse(path + "/" + keyword, n.dump() + ", which is no count", "a whole number from 0 to 1000000000");
  }
  return static_cast<int64_t>(n.get<double>());
}

}  // namespace nibble::constrain
