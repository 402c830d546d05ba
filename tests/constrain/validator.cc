#include "constrain/validator.h"

#include <algorithm>
#include <regex>

namespace nibble::constrain {
namespace {

using Schema = nlohmann::ordered_json;
using Value = nlohmann::json;

bool has_type(const Value& v, const std::string& type) {
  if (type == "integer")
    return v.is_number_integer() || (v.is_number_float() && v.get<double>() == std::floor(v.get<double>()));
  if (type == "number") return v.is_number();
  return type == v.type_name();
}

int64_t characters(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

bool valid_string(const std::string& text, const Schema& s) {
  const int64_t n = characters(text);
  if (s.contains("minLength") && n < s["minLength"].get<int64_t>()) return false;
  if (s.contains("maxLength") && n > s["maxLength"].get<int64_t>()) return false;
  return !s.contains("pattern") || std::regex_search(text, std::regex(s["pattern"].get<std::string>()));
}

bool valid_number(double v, const Schema& s) {
  return !(s.contains("minimum") && v < s["minimum"].get<double>()) &&
         !(s.contains("maximum") && v > s["maximum"].get<double>()) &&
         !(s.contains("exclusiveMinimum") && v <= s["exclusiveMinimum"].get<double>()) &&
         !(s.contains("exclusiveMaximum") && v >= s["exclusiveMaximum"].get<double>());
}

bool valid_array(const Value& v, const Schema& s, const Schema& root) {
  const auto n = static_cast<int64_t>(v.size());
  if (s.contains("minItems") && n < s["minItems"].get<int64_t>()) return false;
  if (s.contains("maxItems") && n > s["maxItems"].get<int64_t>()) return false;
  const size_t placed = s.contains("prefixItems") ? s["prefixItems"].size() : 0;
  for (size_t i = 0; i < v.size(); ++i) {
    if (i < placed) {
      if (!is_valid(v[i], s["prefixItems"][i], root)) return false;
    } else if (s.contains("items") && !is_valid(v[i], s["items"], root)) {
      return false;
    }
  }
  return true;
}

bool valid_object(const Value& v, const Schema& s, const Schema& root) {
  for (const Schema& key : s.value("required", Schema::array())) {
    if (!v.contains(key.get<std::string>())) return false;
  }
  for (const auto& [key, item] : v.items()) {
    if (s.contains("properties") && s["properties"].contains(key)) {
      if (!is_valid(item, s["properties"][key], root)) return false;
    } else if (s.contains("additionalProperties") && !is_valid(item, s["additionalProperties"], root)) {
      return false;
    }
  }
  const auto n = static_cast<int64_t>(v.size());
  return n >= s.value("minProperties", int64_t{0}) && n <= s.value("maxProperties", int64_t{1} << 40);
}

}  // namespace

bool is_valid(const Value& v, const Schema& s, const Schema& root) {
  if (s.is_boolean()) return s.get<bool>();
  if (s.contains("$ref"))
    return is_valid(v, root.at(Schema::json_pointer(s["$ref"].get<std::string>().substr(1))), root);
  const auto fits = [&](const Schema& part) { return is_valid(v, part, root); };
  if (s.contains("anyOf") && std::none_of(s["anyOf"].begin(), s["anyOf"].end(), fits)) return false;
  if (s.contains("oneOf") && std::count_if(s["oneOf"].begin(), s["oneOf"].end(), fits) != 1) return false;
  const auto equals = [&](const Schema& literal) { return Value::parse(literal.dump()) == v; };
  if (s.contains("const") && !equals(s["const"])) return false;
  if (s.contains("enum") && std::none_of(s["enum"].begin(), s["enum"].end(), equals)) return false;
  if (s.contains("type")) {
    const Schema types = s["type"].is_array() ? s["type"] : Schema::array({s["type"]});
    if (std::none_of(types.begin(), types.end(), [&](const Schema& t) { return has_type(v, t.get<std::string>()); }))
      return false;
  }
  if (v.is_string()) return valid_string(v.get<std::string>(), s);
  if (v.is_number()) return valid_number(v.get<double>(), s);
  if (v.is_array()) return valid_array(v, s, root);
  return !v.is_object() || valid_object(v, s, root);
}

}  // namespace nibble::constrain
