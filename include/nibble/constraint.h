// What the text of an answer must be, in a form that a client can send. docs/constrained.md has the dialects.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nibble {

// The tool calls of a chat's answer.
struct CallConstraint {
  struct Tool {
    std::string name;
    std::string parameters;  // JSON schema of its arguments; empty: any arguments
    bool operator==(const Tool&) const = default;
  };
  std::vector<Tool> tools;  // that may be called; none: no call may be made
  bool required = false;    // there must be a call; the response is left out where it is not free
  bool parallel = true;     // there may be several
  bool operator==(const CallConstraint&) const = default;
};

struct Constraint {
  enum class Kind : uint8_t {
    kNone,
    kJson,        // any JSON object
    kJsonSchema,  // JSON that fits the schema in `text`
    kRegex,       // text that the regular expression in `text` matches as a whole
  };
  Kind kind = Kind::kNone;  // of a chat's answer it is the response that is held
  std::string text = {};
  std::optional<CallConstraint> calls = {};  // absent: as the model likes where the response is free, otherwise none

  bool none() const { return kind == Kind::kNone && !calls; }
  bool operator==(const Constraint&) const = default;
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
