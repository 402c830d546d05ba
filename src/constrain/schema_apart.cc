// Whether no value fits two schemas: types, values and discriminating properties can tell. What cannot be told is taken
// for an overlap.
#include <algorithm>

#include "constrain/schema_compiler.h"

namespace nibble::constrain {
namespace {

constexpr int kMaxDepth = 16;  // of references and alternatives that are followed

bool is_required(const Json& schema, const std::string& key) {
  const auto it = schema.find("required");
  return it != schema.end() && it->is_array() && std::find(it->begin(), it->end(), Json(key)) != it->end();
}

bool overlap(const std::string& a, const std::string& b) {
  const auto is_number = [](const std::string& t) { return t == "integer" || t == "number"; };
  return a == b || (is_number(a) && is_number(b));
}

}  // namespace

const Json& SchemaCompiler::resolved(const Json& schema, const std::string& path) const {
  const Json* at = &schema;
  for (int i = 0; i < kMaxDepth && at->is_object() && at->contains("$ref") && (*at)["$ref"].is_string(); ++i) {
    at = &target((*at)["$ref"].get<std::string>(), path);
  }
  return *at;
}

// The only values that fit, where they are listed.
std::optional<std::vector<Json>> SchemaCompiler::values_of(const Json& schema, const std::string& path,
                                                           int depth) const {
  const Json& s = resolved(schema, path);
  if (!s.is_object() || depth > kMaxDepth) return std::nullopt;
  if (s.contains("const")) return std::vector<Json>{s["const"]};
  if (s.contains("enum") && s["enum"].is_array()) return std::vector<Json>(s["enum"].begin(), s["enum"].end());
  return std::nullopt;
}

bool SchemaCompiler::apart(const Json& first, const Json& second, const std::string& path, int depth) const {
  const Json &a = resolved(first, path), &b = resolved(second, path);
  if (depth > kMaxDepth || !a.is_object() || !b.is_object()) return false;
  for (const bool swapped : {false, true}) {
    const Json *one = swapped ? &b : &a, *other = swapped ? &a : &b;
    for (const char* keyword : {"anyOf", "oneOf", "allOf"}) {
      if (!one->contains(keyword) || !(*one)[keyword].is_array()) continue;
      const Json& parts = (*one)[keyword];
      return std::all_of(parts.begin(), parts.end(),
                         [&](const Json& part) { return apart(part, *other, path, depth + 1); });
    }
  }
  const auto a_values = values_of(a, path, depth), b_values = values_of(b, path, depth);
  if (a_values && b_values) {
    return std::none_of(a_values->begin(), a_values->end(), [&](const Json& v) {
      return std::find(b_values->begin(), b_values->end(), v) != b_values->end();
    });
  }
  const auto types = [&](const Json& schema, const std::optional<std::vector<Json>>& values) {
    if (!values) return types_of(schema, path);
    std::vector<std::string> out;
    for (const Json& v : *values) out.push_back(v.is_number() ? "number" : v.type_name());
    return out;
  };
  const std::vector<std::string> a_types = types(a, a_values), b_types = types(b, b_values);
  if (a_types.empty() || b_types.empty()) return false;
  bool shared = false, objects_only = true;
  for (const std::string& x : a_types) {
    for (const std::string& y : b_types) {
      shared = shared || overlap(x, y);
      objects_only = objects_only && (!overlap(x, y) || x == "object");
    }
  }
  if (!shared) return true;
  if (!objects_only || !a.contains("properties") || !b.contains("properties")) return false;
  for (const auto& [key, schema] : a["properties"].items()) {
    if (!b["properties"].contains(key) || !is_required(a, key) || !is_required(b, key)) continue;
    if (apart(schema, b["properties"][key], path, depth + 1)) return true;
  }
  return false;
}

}  // namespace nibble::constrain
