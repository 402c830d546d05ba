// The compiler behind json_schema.h: one walk over a schema, which adds moves to a grammar as it goes.
#pragma once

#include <nlohmann/json.hpp>

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "constrain/char_automaton.h"
#include "constrain/grammar.h"
#include "constrain/json_grammar.h"

namespace nibble::constrain {

using Json = nlohmann::ordered_json;  // properties come in the order that the schema has them in

// How a value is written: as JSON, as the arguments of a tool call, or as one argument of the type that its element
// names, which leaves out the values of other types. Strings are written as they are there, the rest as JSON.
enum class Form : uint8_t { kJson, kArguments, kString, kNumber, kBoolean, kNull, kObject, kArray };
std::string_view type_of(Form form);  // as schemas and elements call it

class SchemaCompiler {
 public:
  using State = Grammar::State;
  SchemaCompiler(Grammar& grammar, const JsonRules& rules, const Json& root, std::string_view what)
      : g_(grammar), rules_(rules), root_(root), what_(what) {}

  // Between two states, with all that it refers to.
  void compile(Form form, State from, State to);

 private:
  [[noreturn]] void refuse(const std::string& path, const std::string& seen, const char* fix = nullptr) const;
  void value(const Json& schema, const std::string& path, Form form, State from, State to);
  void any(Form form, State from, State to);
  void typed(const std::string& type, const Json& schema, const std::string& path, Form form, State from, State to);
  void literals(const Json& schema, const std::string& path, Form form, State from, State to);
  void reference(const Json& schema, const std::string& path, Form form, State from, State to);
  void choice(const char* keyword, const Json& schema, const std::string& path, Form form, State from, State to);

  void number(const Json& schema, const std::string& path, bool integer, State from, State to);
  void string(const Json& schema, const std::string& path, Form form, State from, State to);
  void array(const Json& schema, const std::string& path, State from, State to);
  struct Member {
    std::string key;
    const Json* schema;
    std::string path;
    bool required;
  };
  struct Object {
    std::vector<Member> members;
    const Json* others;  // what other members are; none: there are no others
    std::string others_path;
    int64_t least, most;  // members, where none is named; most -1: no limit
  };
  Object read_object(const Json& schema, const std::string& path) const;
  void object(const Json& schema, const std::string& path, State from, State to);
  void other_key(const std::vector<Member>& known, State from, State to);
  static CharAutomaton keys_but(const std::vector<Member>& known);

  void arguments(const Json& schema, const std::string& path, State from, State to);
  Grammar::Rule argument(const Member& member);
  Grammar::Rule other_argument(const Object& object);
  void argument_value(const Json& schema, const std::string& path, State from, State to);

  // `least` to `most` more members of a list; `first`: none has come before.
  template <class AddItem>
  void members(bool first, int64_t least, std::optional<int64_t> most, char close, State from, State to,
               const AddItem& add_item);

  std::vector<std::string> types_of(const Json& schema, const std::string& path) const;
  void check_keywords(const Json& schema, const std::string& path, const std::vector<std::string>& types) const;
  int64_t count_at(const Json& schema, const char* keyword, const std::string& path, int64_t otherwise) const;
  // What can be told of a schema without running it, for oneOf: is there no value that two alternatives share?
  bool apart(const Json& a, const Json& b, const std::string& path, int depth) const;
  std::optional<std::vector<Json>> values_of(const Json& schema, const std::string& path, int depth) const;
  const Json& resolved(const Json& schema, const std::string& path) const;
  const Json& target(const std::string& reference, const std::string& path) const;

  State call(Grammar::Rule rule, State from);
  State text(std::string_view bytes, State from);
  Grammar::Rule rule_for(const Json& schema, const std::string& path, Form form);  // compiled later

  Grammar& g_;
  const JsonRules& rules_;
  const Json& root_;
  std::string what_;
  struct Pending {
    Grammar::Rule rule;
    const Json* schema;
    std::string path;
    Form form;
  };
  std::deque<Pending> pending_;
  std::map<std::pair<const Json*, Form>, Grammar::Rule> rule_of_;
  int64_t nodes_ = 0;
};

}  // namespace nibble::constrain
