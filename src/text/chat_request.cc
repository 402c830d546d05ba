// The JSON that clients send, read into messages and render options; every refusal names the field.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "text/chat.h"
#include "text/chat_json.h"
#include "text/json_text.h"
#include "text/utf8.h"

namespace nibble::text {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(std::string what, std::string seen, std::string rule, std::string fix) {
  throw Refusal({std::move(what), std::move(seen), std::move(rule), std::move(fix)});
}

// A value as a refusal shows it: short, and valid UTF-8.
std::string shown(const Json& value) {
  const std::string text = value.dump();
  const auto limit = static_cast<size_t>(80);
  return text.size() <= limit ? text : text.substr(0, valid_utf8_prefix(text.substr(0, limit))) + "...";
}

// A float as Python prints it, because the model saw declarations printed by Python.
std::string python_float(double x) {
  std::array<char, 40> buffer;
  const double magnitude = std::fabs(x);
  const bool plain = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  std::string out(buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), x, format).ptr);
  if (plain && out.find('.') == std::string::npos) out += ".0";
  return out;
}

struct Style {
  bool sorted;
  std::string_view comma, colon;
};
constexpr Style kCompactSorted = {true, ",", ":"};
constexpr Style kSpaced = {false, ", ", ": "};

void dump(const Json& value, const Style& style, std::string& out) {
  if (value.is_object()) {
    std::vector<std::pair<std::string_view, const Json*>> members;
    for (const auto& [key, member] : value.items()) members.emplace_back(key, &member);
    if (style.sorted) std::sort(members.begin(), members.end());  // by bytes, which for UTF-8 is by code point
    out += '{';
    for (size_t i = 0; i < members.size(); ++i) {
      if (i > 0) out += style.comma;
      out += json_quoted(members[i].first);
      out += style.colon;
      dump(*members[i].second, style, out);
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    for (size_t i = 0; i < value.size(); ++i) {
      if (i > 0) out += style.comma;
      dump(value[i], style, out);
    }
    out += ']';
  } else if (value.is_string()) {
    out += json_quoted(value.get_ref<const std::string&>());
  } else {
    out += value.is_number_float() ? python_float(value.get<double>()) : value.dump();
  }
}

std::string dump(const Json& value, const Style& style) {
  std::string out;
  dump(value, style, out);
  return out;
}

const Json* field(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string string_field(const Json& object, const char* name, const std::string& where) {
  const Json* value = field(object, name);
  if (!value) return {};
  if (!value->is_string()) refuse(where + "." + name, shown(*value), "the field is a string", "send a string or null");
  return value->get<std::string>();
}

bool bool_field(const Json& object, const char* name, bool otherwise, const std::string& where) {
  const Json* value = field(object, name);
  if (!value) return otherwise;
  if (!value->is_boolean()) refuse(where + name, shown(*value), "the field is true or false", "send a boolean");
  return value->get<bool>();
}

void drop_nulls(Json& value) {
  if (value.is_object()) {
    for (auto member = value.begin(); member != value.end();) {
      member = member->is_null() ? value.erase(member) : std::next(member);
    }
  }
  for (Json& inner : value) {
    if (inner.is_structured()) drop_nulls(inner);
  }
}

std::vector<Tool> read_tools(const Json& object, const std::string& where, bool without_nulls) {
  std::vector<Tool> tools;
  const Json* list = field(object, "tools");
  if (!list) return tools;
  if (!list->is_array()) refuse(where + "tools", shown(*list), "tools is an array of objects", "send an array");
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string at = where + "tools[" + std::to_string(i) + "]";
    Json tool = (*list)[i];
    const std::string type = tool.is_object() ? string_field(tool, "type", at) : "";
    const Json* function = tool.is_object() ? field(tool, "function") : nullptr;
    std::string name = function && function->is_object() ? string_field(*function, "name", at + ".function") : "";
    if (name.empty() || (!type.empty() && type != "function")) {
      refuse(at, name.empty() ? "no function with a name" : "type \"" + type + "\"",
             "a tool is {\"type\": \"function\", \"function\": {\"name\", \"description\", \"parameters\"}}",
             "send the tool in that form");
    }
    Tool& read = tools.emplace_back();
    read.name = std::move(name);
    if (const Json* parameters = field(*function, "parameters")) read.parameters = parameters->dump();
    if (field(*function, "strict")) read.strict = bool_field(*function, "strict", false, at + ".function.");
    if (without_nulls) drop_nulls(tool);
    read.declaration = dump(tool, kCompactSorted);
  }
  return tools;
}

std::string read_part(const Json& part, const std::string& where) {
  if (part.is_string()) return part.get<std::string>();
  const std::string type = part.is_object() ? string_field(part, "type", where) : "";
  if (type == "text" || type == "input_text" || type == "output_text") return string_field(part, "text", where);
  const bool image = type == "image_url" || type == "image" || type == "input_image";
  refuse(where, "a content part of type \"" + type + "\"",
         image ? "this engine runs no vision tower" : "content is a string, or a list of parts of type text",
         image ? "leave images out" : "send text parts only");
}

std::vector<std::string> read_content(const Json& message, const std::string& where) {
  const Json* content = field(message, "content");
  if (!content) return {};
  if (content->is_string()) return {content->get<std::string>()};
  if (!content->is_array()) {
    refuse(where + ".content", shown(*content), "content is a string, a list of parts, or null", "send one of these");
  }
  std::vector<std::string> parts;
  for (size_t i = 0; i < content->size(); ++i) {
    parts.push_back(read_part((*content)[i], where + ".content[" + std::to_string(i) + "]"));
  }
  return parts;
}

std::vector<ToolCall> read_calls(const Json& message, const std::string& where) {
  std::vector<ToolCall> calls;
  const Json* list = field(message, "tool_calls");
  if (!list) return calls;
  if (!list->is_array()) refuse(where + ".tool_calls", shown(*list), "tool_calls is an array", "send an array");
  for (size_t i = 0; i < list->size(); ++i) {
    const Json& call = (*list)[i];
    const std::string at = where + ".tool_calls[" + std::to_string(i) + "]";
    const Json* function = call.is_object() ? field(call, "function") : nullptr;
    if (!function || !function->is_object()) {
      refuse(at, "no function object",
             "a tool call is {\"id\", \"type\": \"function\", \"function\": {\"name\", \"arguments\"}}",
             "send the call as it was received");
    }
    ToolCall read = {string_field(call, "id", at), string_field(*function, "name", at + ".function"), {}};
    if (const Json* arguments = field(*function, "arguments")) {
      read.arguments = arguments->is_string() ? arguments->get<std::string>() : dump(*arguments, kSpaced);
    }
    calls.push_back(std::move(read));
  }
  return calls;
}

Role read_role(const Json& message, const std::string& where) {
  const std::string role = string_field(message, "role", where);
  if (role == "system") return Role::kSystem;
  if (role == "developer") return Role::kDeveloper;
  if (role == "user") return Role::kUser;
  if (role == "assistant") return Role::kAssistant;
  if (role == "tool") return Role::kTool;
  refuse(where + ".role", "\"" + role + "\"", "roles are system, developer, user, assistant and tool",
         "use one of these");
}

std::string first_of(const Json& object, std::initializer_list<const char*> names, const std::string& where) {
  for (const char* name : names) {
    if (std::string value = string_field(object, name, where); !value.empty()) return value;
  }
  return {};
}

Message read_message(const Json& json, const std::string& where) {
  if (!json.is_object())
    refuse(where, shown(json), "a message is an object with a role", "send {\"role\", \"content\"}");
  Message message;
  message.role = read_role(json, where);
  message.name = string_field(json, "name", where);
  message.content = read_content(json, where);
  if (message.role == Role::kAssistant) {
    message.reasoning = first_of(json, {"reasoning_content", "reasoning"}, where);
    message.tool_calls = read_calls(json, where);
  } else if (message.role == Role::kTool) {
    message.tool = string_field(json, "tool", where);
    message.tool_call_id = first_of(json, {"tool_call_id", "id"}, where);
  } else if (message.role != Role::kUser) {
    message.tools = read_tools(json, where + ".", message.role == Role::kDeveloper);
  }
  return message;
}

std::vector<Message> read_messages(const Json& list) {
  if (!list.is_array() || list.empty()) {
    refuse("messages", list.is_array() ? "an empty list" : "not a list", "a chat is a non-empty list of messages",
           "send [{\"role\": \"user\", \"content\": \"...\"}]");
  }
  std::vector<Message> messages;
  for (size_t i = 0; i < list.size(); ++i)
    messages.push_back(read_message(list[i], "messages[" + std::to_string(i) + "]"));
  return messages;
}

// K3's own names, where the checkpoint's own words are meant: nothing else is understood.
Effort strict_effort(const Json& value, const std::string& where) {
  if (value == "low") return Effort::kLow;
  if (value == "high") return Effort::kHigh;
  if (value == "max") return Effort::kMax;
  refuse(where, shown(value), "the model knows the efforts low, high and max",
         "send \"low\", \"high\", \"max\" or null");
}

bool turns_thinking_off(const Json* effort) {
  return effort && (*effort == "none" || *effort == "off" || *effort == "disabled");
}

// OpenAI's ladder, mapped to the three efforts that there are.
Effort mapped_effort(const Json& value, const std::string& where) {
  if (value == "minimal" || value == "low") return Effort::kLow;
  if (value == "medium" || value == "high") return Effort::kHigh;
  if (value == "xhigh" || value == "max") return Effort::kMax;
  refuse(where, shown(value), "efforts are none, minimal, low, medium, high, xhigh and max", "send one of these");
}

// The switches of thinking, by precedence: the request's `thinking`, then chat_template_kwargs, then reasoning_effort.
void read_thinking(const Json& request, RenderOptions& options) {
  static const Json kNothing = Json::object();
  const auto object = [&](const char* name) -> const Json& {
    const Json* value = field(request, name);
    if (value && !value->is_object()) refuse(name, shown(*value), "the field is an object", "send an object");
    return value ? *value : kNothing;
  };
  const Json &thinking = object("thinking"), &kwargs = object("chat_template_kwargs"), &reasoning = object("reasoning");
  const Json* effort = field(request, "reasoning_effort");
  const char* effort_name = effort ? "reasoning_effort" : "reasoning.effort";
  if (!effort) effort = field(reasoning, "effort");

  if (field(request, "thinking")) {
    const std::string type = string_field(thinking, "type", "thinking");
    if (!type.empty() && type != "enabled" && type != "disabled") {
      refuse("thinking.type", "\"" + type + "\"", "thinking is enabled or disabled", "send one of these");
    }
    options.thinking = type != "disabled";
  } else if (field(kwargs, "thinking") || field(kwargs, "enable_thinking")) {
    const char* name = field(kwargs, "thinking") ? "thinking" : "enable_thinking";
    options.thinking = bool_field(kwargs, name, true, "chat_template_kwargs.");
  } else if (effort) {
    options.thinking = !turns_thinking_off(effort);
  }
  if (!options.thinking) return;  // no effort means anything then, not even a wrong one

  const auto own = [&](const Json& where, const char* name, const char* spelled) {
    const auto found = where.find(name);
    if (found == where.end()) return false;
    options.effort = found->is_null() ? std::nullopt : std::optional(strict_effort(*found, spelled));
    return true;
  };
  if (own(thinking, "effort", "thinking.effort")) return;
  if (own(kwargs, "thinking_effort", "chat_template_kwargs.thinking_effort")) return;
  if (effort && !turns_thinking_off(effort)) options.effort = mapped_effort(*effort, effort_name);
}

ToolChoice read_tool_choice(const Json& request) {
  using Kind = ToolChoice::Kind;
  const Json* choice = field(request, "tool_choice");
  if (!choice || *choice == "auto") return {};
  if (*choice == "none") return {Kind::kNone, {}};
  if (*choice == "required") return {Kind::kRequired, {}};
  const Json* function = choice->is_object() ? field(*choice, "function") : nullptr;
  std::string name = function && function->is_object() ? string_field(*function, "name", "tool_choice.function") : "";
  if (!name.empty()) return {Kind::kNamed, std::move(name)};
  refuse("tool_choice", shown(*choice), "tool_choice is auto, none, required or a named function",
         "send one of these, or {\"type\": \"function\", \"function\": {\"name\": ...}}");
}

ResponseFormat read_response_format(const Json& request) {
  using Kind = ResponseFormat::Kind;
  const Json* format = field(request, "response_format");
  if (!format) return {};
  const std::string type = format->is_object() ? string_field(*format, "type", "response_format") : "";
  if (type == "text") return {};
  if (type == "json_object") return {.kind = Kind::kJsonObject};
  if (type != "json_schema") {
    refuse("response_format", shown(*format), "the type is text, json_object or json_schema", "send one of these");
  }
  const Json* schema = field(*format, "json_schema");
  for (const char* inner : {"schema", "json_schema"}) {
    if (!schema || !schema->is_object() || !field(*schema, inner)) continue;
    schema = field(*schema, inner);
    break;
  }
  if (!schema) return {Kind::kJsonSchema, "null", "null"};
  return {Kind::kJsonSchema, schema->dump(), dump(*schema, kCompactSorted)};
}

// nlohmann's parser takes no depth limit, and values nested deeply would exhaust the stack of whoever walks them.
void check_depth(std::string_view json) {
  int64_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxJsonDepth) {
        refuse("the chat's JSON", "values nested deeper than " + std::to_string(kMaxJsonDepth),
               "nesting is limited, so that no input can exhaust the stack", "send flatter JSON");
      }
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

}  // namespace

Json parse_json(std::string_view json) {
  check_depth(json);
  try {
    return Json::parse(json);
  } catch (const Json::parse_error& error) {
    refuse("the chat's JSON", "not JSON at byte " + std::to_string(error.byte),
           "a chat is JSON in UTF-8: a list of messages, or a chat-completions request", "correct the JSON");
  } catch (const Json::out_of_range&) {
    refuse("the chat's JSON", "a number beyond the range of a double", "numbers are doubles, as in most JSON parsers",
           "correct the number");
  }
}

ChatRequest parse_chat(std::string_view json, const RenderOptions& defaults) {
  return read_chat(parse_json(json), defaults);
}

ChatRequest read_chat(const Json& root, const RenderOptions& defaults) {
  ChatRequest request{{}, defaults};
  if (!root.is_object()) {
    request.messages = read_messages(root);
    return request;
  }
  const Json* messages = field(root, "messages");
  request.messages = read_messages(messages ? *messages : Json());
  RenderOptions& options = request.options;
  read_thinking(root, options);
  options.tools = read_tools(root, "", false);
  options.tool_choice = read_tool_choice(root);
  options.parallel_tool_calls = bool_field(root, "parallel_tool_calls", true, "");
  options.response_format = read_response_format(root);
  options.continue_final_message = bool_field(root, "continue_final_message", false, "");
  options.add_generation_prompt = bool_field(root, "add_generation_prompt", !options.continue_final_message, "");
  if (options.add_generation_prompt && options.continue_final_message) {
    refuse("continue_final_message true", "add_generation_prompt true",
           "a prompt either continues the last message or starts a new one", "send add_generation_prompt false");
  }
  return request;
}

}  // namespace nibble::text
