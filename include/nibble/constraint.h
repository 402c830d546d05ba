// What the text of an answer must be, in a form that a client can send. docs/constrained.md has the dialects.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nibble {

struct Constraint {
  enum class Kind : uint8_t {
    kNone,
    kJson,        // any JSON object
    kJsonSchema,  // JSON that fits the schema in `text`
    kRegex,       // text that the regular expression in `text` matches as a whole
  };
  Kind kind = Kind::kNone;
  std::string text;
};
constexpr std::string_view name_of(Constraint::Kind kind) {  // as OpenAI and vLLM call them
  switch (kind) {
    case Constraint::Kind::kNone: return "none";
    case Constraint::Kind::kJson: return "json_object";
    case Constraint::Kind::kJsonSchema: return "json_schema";
    case Constraint::Kind::kRegex: return "regex";
  }
  return "none";
}

}  // namespace nibble
