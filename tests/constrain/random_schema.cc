#include "constrain/random_schema.h"

#include <string>
#include <vector>

namespace nibble::constrain {
namespace {

using Schema = nlohmann::ordered_json;

class Maker {
 public:
  explicit Maker(std::mt19937_64& random) : random_(random) {}

  Schema any(int depth) {
    if (depth > 3) return scalar();
    switch (below(10)) {
      case 0:
      case 1:
      case 2: return object(depth);
      case 3:
      case 4: return array(depth);
      case 5: return {{"anyOf", {any(depth + 1), any(depth + 1)}}, {"title", "either"}};
      case 6: return one_of(depth);
      case 7: return {{"$ref", below(2) == 0 ? "#/$defs/tree" : "#/$defs/leaf"}};
      default: return scalar();
    }
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }
  bool coin() { return below(2) == 0; }

  Schema scalar() {
    switch (below(11)) {
      case 0: return {{"type", "boolean"}};
      case 1: return {{"type", "null"}};
      case 2: return {{"enum", {"red", "gr\"n", 7, -1.5, nullptr, true, {{"a", {1, "b"}}}}}};
      case 3: return {{"const", coin() ? Schema("x\\y\n") : Schema(12)}};
      case 4: return integer();
      case 5: return {{"type", "number"}};
      case 6: return {{"type", "number"}, {"minimum", -2.5}, {"exclusiveMaximum", 3 + static_cast<int>(below(90))}};
      case 7: return {{"type", {"string", "null"}}, {"minLength", below(3)}, {"maxLength", 3 + below(6)}};
      case 8: {
        static const std::vector<std::string> kPatterns = {"^[a-z]{2,5}$", "^(ab|cd)+$", "x", "^[0-9]+-[A-Z]", "\"$"};
        Schema out = {{"type", "string"}, {"pattern", kPatterns[below(kPatterns.size())]}};
        if (coin()) out["maxLength"] = 12;
        return out;
      }
      default: return {{"type", "string"}};
    }
  }

  Schema integer() {
    Schema out = {{"type", "integer"}};
    const int64_t low = static_cast<int64_t>(below(4000)) - 2000;
    if (coin()) out[coin() ? "minimum" : "exclusiveMinimum"] = low;
    if (coin()) out[coin() ? "maximum" : "exclusiveMaximum"] = low + 3 + static_cast<int64_t>(below(3000));
    return out;
  }

  Schema array(int depth) {
    Schema out = {{"type", "array"}};
    if (coin()) out["items"] = any(depth + 1);
    if (below(3) == 0) {
      out["prefixItems"] = {any(depth + 1), scalar()};
      if (coin()) out["items"] = false;
    } else {
      const uint64_t least = below(3);
      if (coin()) out["minItems"] = least;
      if (coin()) out["maxItems"] = least + below(3);
    }
    return out;
  }

  Schema object(int depth) {
    Schema out = {{"type", "object"}};
    static const std::vector<std::string> kNames = {"name", "na", "n\"ame", "value", "", "\xC3\xA9\xC3\xA9", "names"};
    const uint64_t count = below(4), first = below(kNames.size());
    for (uint64_t i = 0; i < count; ++i) {
      const std::string& key = kNames[(first + i) % kNames.size()];
      out["properties"][key] = any(depth + 1);
      if (coin()) out["required"].push_back(key);
    }
    if (below(3) == 0) out["additionalProperties"] = coin() ? Schema(coin()) : scalar();
    if (count == 0 && coin()) {
      out["minProperties"] = 1;
      out["maxProperties"] = 2 + below(2);
      out["additionalProperties"] = scalar();
    }
    return out;
  }

  Schema one_of(int depth) {
    const auto tagged = [&](const char* tag) {
      return Schema{{"type", "object"},
                    {"properties", {{"kind", {{"const", tag}}}, {"of", any(depth + 1)}}},
                    {"required", {"kind"}}};
    };
    return {{"oneOf", {tagged("a"), tagged("b"), {{"type", "null"}}}}};
  }

  std::mt19937_64& random_;
};

}  // namespace

Schema random_schema(std::mt19937_64& random) {
  Maker make(random);
  Schema root = make.any(0);
  if (root.is_boolean()) root = Schema::object();
  root["$defs"] = {{"leaf", {{"type", "integer"}, {"minimum", 0}, {"maximum", 9}}},
                   {"tree",
                    {{"type", "object"},
                     {"properties",
                      {{"value", {{"$ref", "#/$defs/leaf"}}},
                       {"children", {{"type", "array"}, {"items", {{"$ref", "#/$defs/tree"}}}, {"maxItems", 2}}}}},
                     {"required", {"value"}}}}};
  return root;
}

}  // namespace nibble::constrain
