// JSON schema: texts that fit and texts that do not, and refusals by keyword and place.
#include "constrain/json_schema.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "constrain/toy_vocabulary.h"

namespace nibble::constrain {
namespace {

const ToyVocabulary& vocabulary() {
  static const ToyVocabulary only(0);
  return only;
}
std::shared_ptr<Compiled> schema(const std::string& text) {
  return vocabulary().compile(Constraint::Kind::kJsonSchema, text);
}

struct Case {
  const char* schema;
  std::vector<const char*> fit, do_not;
};

TEST(JsonSchema, WhatFits) {
  const std::vector<Case> cases = {
      {R"({})", {"1", "\"a\"", "[]", "{}", "[1, {\"a\": null}]", "-0.5e+3"}, {"", "01", "[1,]", "{a:1}", "nul", "1 "}},
      {R"({"type": "object"})", {"{}", "{\"a\":[true]}"}, {"[]", "{\"a\"}"}},
      {R"({"type": "string"})",
       {R"("a\n\u00e9\ud83d\ude00")", "\"\xC3\xA9\""},
       {"\"a", R"("\ud83d")", R"("\ude00")", R"("\x")", "\"\n\"", "\"\xC3\"", "a"}},
      {R"({"type": "string", "minLength": 2, "maxLength": 3})",
       {R"("ab")", R"("\u00e9\ud83d\ude00b")", "\"\xC3\xA9\xC3\xA9\""},
       {R"("a")", R"("abcd")", "\"\xC3\xA9\""}},
      {R"({"type": "string", "pattern": "b+"})", {R"("b")", R"("abbc")", R"("\nb\u0041")"}, {R"("ac")", R"("")"}},
      {R"({"type": "string", "pattern": "^a|b$"})", {R"("ax")", R"("xb")"}, {R"("xa")", R"("bx")"}},
      {R"({"type": "string", "pattern": "^[\"\\\\\\n]+$"})", {R"("\"\\\n")"}, {"\"a\"", "\"\n\""}},
      {R"({"type": "string", "pattern": "^a*$", "maxLength": 2})", {R"("")", R"("aa")"}, {R"("aaa")", R"("b")"}},
      {R"({"type": "string", "format": "date"})",
       {R"("2024-02-29")", R"("1999-12-31")", R"("2000-02-29")"},
       {R"("2023-02-29")", R"("1900-02-29")", R"("2023-04-31")", R"("2023-13-01")", R"("23-1-1")"}},
      {R"({"type": "string", "format": "date-time"})", {R"("2024-01-01T23:59:59.5Z")"}, {R"("2024-01-01 23:59:59")"}},
      {R"({"type": "string", "format": "uuid"})", {R"("123e4567-e89b-12d3-a456-426614174000")"}, {R"("123e4567")"}},
      {R"({"type": "string", "format": "ipv4"})", {R"("192.168.0.255")"}, {R"("256.1.1.1")", R"("1.1.1")"}},
      {R"({"type": "string", "format": "ipv6"})",
       {R"("::1")", R"("2001:db8::")", R"("1:2:3:4:5:6:7:8")"},
       {R"("1:2")", R"(":::")"}},
      {R"({"type": "string", "format": "email"})", {R"("a.b@example.org")"}, {R"("a@")", R"("@b.c")"}},
      {R"({"type": "string", "format": "duration"})",
       {R"("P1DT2H")", R"("PT5M")", R"("P3W")"},
       {R"("P")", R"("P1DT")"}},
      {R"({"type": "string", "format": "hostname"})", {R"("a-b.example")"}, {R"("-a")", R"("a..b")"}},
      {R"({"type": "integer"})", {"0", "-7", "123"}, {"1.0", "01", "-0", "1e3", "+1"}},
      {R"({"type": "integer", "minimum": -3, "exclusiveMaximum": 12})", {"-3", "0", "11"}, {"-4", "12", "100"}},
      {R"({"type": "number", "minimum": 0.5, "maximum": 1})", {"0.5", "0.75", "1", "1.0"}, {"0.49", "1.01", "5e-1"}},
      {R"({"type": ["integer", "null"]})", {"5", "null"}, {"true"}},
      {R"({"type": ["integer", "number"]})", {"5", "5.5"}, {"true"}},
      {R"({"enum": ["a", 1, null, {"b": [2]}]})", {R"("a")", "1", "null", R"({"b":[2]})"}, {R"("b")", "2"}},
      {R"({"type": "string", "enum": ["a", 1]})", {R"("a")"}, {"1"}},
      {R"({"const": "x"})", {R"("x")"}, {"x"}},
      {R"({"type": "array", "items": {"type": "integer"}})",
       {"[]", "[1]", "[1,2, 3]", "[\n  1,\n  2\n]"},
       {"[a]", "[1 2]", "[,1]"}},
      {R"({"type": "array", "items": {"type": "null"}, "minItems": 1, "maxItems": 2})",
       {"[null]", "[null, null]"},
       {"[]", "[null,null,null]"}},
      {R"({"type": "array", "prefixItems": [{"type": "null"}, {"type": "boolean"}], "items": false, "minItems": 1})",
       {"[null]", "[null, true]"},
       {"[]", "[true]", "[null,true,1]"}},
      {R"({"type": "array", "items": false})", {"[]"}, {"[1]"}},
      {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}}, "required": ["a"]})",
       {R"({"a":1})", R"({"a": 1, "b": null})", "{\n  \"a\": 1\n}"},
       {"{}", R"({"b":null})", R"({"b":null,"a":1})", R"({"a":1,"c":1})", R"({"a":1,})"}},
      {R"({"type": "object", "properties": {"ab": {"type": "null"}}, "additionalProperties": {"type": "integer"}})",
       {"{}", R"({"ab":null})", R"({"ab":null,"a":1,"abc":2,"":3})", R"({"x":1})"},
       {R"({"ab":1})", R"({"\u0061b":1})", R"({"a\u0062":1})", R"({"x":null})"}},
      {R"({"type": "object", "additionalProperties": false})", {"{}"}, {R"({"a":1})"}},
      {R"({"type": "object", "required": ["z"], "additionalProperties": {"type": "null"}})",
       {R"({"z":null,"y":null})"},
       {"{}"}},
      {R"({"type": "object", "additionalProperties": {"type": "null"}, "minProperties": 1, "maxProperties": 2})",
       {R"({"a":null})", R"({"a":null,"b":null})"},
       {"{}", R"({"a":null,"b":null,"c":null})"}},
      {R"({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/e"}], "$defs": {"e": {"enum": [1]}}})", {"null", "1"}, {"2"}},
      {R"({"oneOf": [{"type": "null"}, {"type": "integer"}]})", {"null", "1"}, {"true"}},
      {R"({"allOf": [{"type": "null"}], "description": "d"})", {"null"}, {"1"}},
      {R"({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["next"]})",
       {R"({"next":null})", R"({"next":{"next":{"next":null}}})"},
       {R"({"next":{}})"}},
      {R"({"$ref": "#/definitions/a~1b%20c", "definitions": {"a/b c": {"const": 1}}})", {"1"}, {"2"}},
      {R"({"properties": {"a": true}})", {"{}", R"({"a":[1]})"}, {"1"}},
      {R"({"type": "array", "items": {}, "uniqueItems": false})", {"[1,1]"}, {"{}"}},
  };
  for (const Case& c : cases) {
    const auto compiled = schema(c.schema);
    for (const char* text : c.fit) EXPECT_TRUE(fits(compiled, text)) << c.schema << " on " << text;
    for (const char* text : c.do_not) EXPECT_FALSE(fits(compiled, text)) << c.schema << " on " << text;
  }
}

TEST(JsonSchema, Refusals) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"{", "no JSON"},
      {R"({"type": "number", "maximum": 1e400})", "a number beyond the range of a double"},
      {"[]", "neither an object nor a boolean at #"},
      {"false", "nothing that is finite fits it"},
      {R"({"type": "strin"})", "the type \"strin\" at #/type"},
      {R"({"type": []})", "an empty list of types at #/type"},
      {R"({"type": "array", "uniqueItems": true})", "the keyword \"uniqueItems\" at #"},
      {R"({"type": "array", "contains": {}})", "the keyword \"contains\" at #"},
      {R"({"type": "array", "items": [{}]})", "the keyword \"items\" with a list at #"},
      {R"({"type": "object", "properties": {"a": {"not": {}}}})", "the keyword \"not\" at #/properties/a"},
      {R"({"type": "object", "patternProperties": {}})", "the keyword \"patternProperties\" at #"},
      {R"({"type": "object", "propertyNames": {}})", "the keyword \"propertyNames\" at #"},
      {R"({"type": "object", "dependentRequired": {}})", "the keyword \"dependentRequired\" at #"},
      {R"({"type": "object", "unevaluatedProperties": false})", "the keyword \"unevaluatedProperties\" at #"},
      {R"({"type": "object", "properties": {"a": {}}, "minProperties": 1})", "bounds on the number of properties"},
      {R"({"type": "integer", "multipleOf": 3})", "the keyword \"multipleOf\" at #"},
      {R"({"type": "integer", "minimum": 1, "exclusiveMinimum": 0})", "beside its other form at #"},
      {R"({"type": "integer", "minimum": "1"})", "which is no number at #/minimum"},
      {R"({"type": "integer", "minimum": 2, "maximum": 1})", "nothing that is finite fits it"},
      {R"({"type": "number", "maximum": 0.12345678901234567})", "more than 15 digits"},
      {R"({"type": "string", "format": "regex"})", "the format \"regex\" at #"},
      {R"x({"type": "string", "pattern": "(?=a)"})x", "lookaround at byte"},
      {R"({"type": "string", "pattern": "a", "format": "date"})", "pattern and format at once at #"},
      {R"({"type": "string", "minLength": -1})", "which is no count at #/minLength"},
      {R"({"type": "string", "minLength": 3, "maxLength": 2})", "nothing that is finite fits it"},
      {R"({"type": "string", "maxLength": 1000000})", "characters are to be counted"},
      {R"({"type": "string", "minItems": 2})", "the keyword \"minItems\" at #"},
      {R"({"type": "array", "minItems": 1000000})", "more than 131072 states"},
      {R"({"anyOf": []})", "no list of schemas at #/anyOf"},
      {R"({"anyOf": [{}], "type": "object"})", "the keyword \"type\" beside anyOf at #"},
      {R"({"allOf": [{}, {}]})", "the keyword \"allOf\" with more than one schema at #"},
      {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})",
       "alternatives 0 and 1 that one value may both fit at #/oneOf"},
      {R"({"oneOf": [{"type": "object"}, {"type": "object"}]})", "alternatives 0 and 1 that one value may both fit"},
      {R"({"enum": [1], "minimum": 0})", "the keyword \"minimum\" beside enum or const at #"},
      {R"({"enum": 1})", "no list of values at #/enum"},
      {R"({"type": "string", "enum": [1]})", "nothing that is finite fits it"},
      {R"({"$ref": "other.json"})", "a reference to \"other.json\" at #/$ref"},
      {R"({"$ref": "#/$defs/x"})", "which is not there at #/$ref"},
      {R"({"$ref": "#"})", "nothing that is finite fits it"},
      {R"({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]}}})",
       "a part that begins with itself"},
      {R"({"$ref": "#/$defs/a", "minimum": 1, "$defs": {"a": {}}})", "the keyword \"minimum\" beside $ref at #"},
      {R"({"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]})",
       "nothing that is finite fits it"},
      {R"({"if": {}})", "the keyword \"if\" at #"},
      {R"({"nullable": true, "type": "string"})", "the keyword \"nullable\" at #"},
      {R"({"type": "object", "required": [1]})", "which is no name at #/required"},
  };
  for (const auto& [text, seen] : cases) {
    try {
      schema(text);
      ADD_FAILURE() << text << " was taken";
    } catch (const Refusal& refusal) {
      EXPECT_NE(refusal.parts().seen.find(seen), std::string::npos) << text << ": " << refusal.parts().seen;
    }
  }
}

TEST(JsonSchema, SizeIsBounded) {
  std::string wide = R"({"type": "object", "properties": {)";
  for (int i = 0; i < 5000; ++i) wide += (i > 0 ? ", \"k" : "\"k") + std::to_string(i) + "\": {\"type\": \"null\"}";
  EXPECT_THROW(schema(wide + "}}"), Refusal);
  std::string deep = "{}";
  for (int i = 0; i < 200; ++i) deep = R"({"items": )" + deep + "}";
  EXPECT_THROW(schema(deep), Refusal);
  EXPECT_THROW(schema(R"({"const": ")" + std::string(2 << 20, 'a') + "\"}"), Refusal);
}

}  // namespace
}  // namespace nibble::constrain
