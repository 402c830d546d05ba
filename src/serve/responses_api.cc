// POST /v1/responses: OpenAI's newer form, translated into a chat, and its answer back. Nothing is stored: what an
// earlier turn said has to come with the request.
#include <fmt/format.h>

#include "serve/prepared.h"
#include "serve/responses_format.h"

namespace nibble::serve {
namespace {

// The items of one turn of the assistant (thoughts, text, calls) are one message of a chat.
class Conversation {
 public:
  explicit Conversation(Json& messages) : messages_(messages) {}

  void add(const Json& item, const std::string& where) {
    const Fields fields(item, where + ".");
    const std::string type = fields.string("type");
    if (type == "reasoning") return reasoning(fields);
    if (type == "function_call") return call(fields);
    if (type == "function_call_output") {
      const Json* output = fields.find("output");
      return other(
          {{"role", "tool"}, {"tool_call_id", fields.string("call_id")}, {"content", output ? *output : Json("")}});
    }
    if (!type.empty() && type != "message") fields.refuse("type", "items are messages, reasoning and function calls");
    const Json* content = fields.find("content");
    if (fields.string("role") != "assistant") {
      return other({{"role", fields.string("role")}, {"content", content ? *content : Json("")}});
    }
    Json& message = assistant(/*with_content=*/true);
    message["content"] = content ? *content : Json("");
  }

 private:
  // The assistant's message that is being put together, or a new one where that has what is to be added.
  Json& assistant(bool with_content) {
    const bool goes_on = open_ && !(with_content && messages_.back().contains("content"));
    if (!goes_on) messages_.push_back({{"role", "assistant"}});
    open_ = true;
    return messages_.back();
  }

  void other(Json message) {
    messages_.push_back(std::move(message));
    open_ = false;
  }

  void reasoning(const Fields& item) {
    std::string text;
    for (const char* list : {"content", "summary"}) {
      const Json* parts = item.find(list);
      if (!parts || !parts->is_array() || !text.empty()) continue;
      for (const Json& part : *parts) text += Fields(part, list + std::string(".")).string("text");
    }
    open_ = false;  // thoughts begin a turn
    assistant(false)["reasoning_content"] = text;
  }

  void call(const Fields& item) {
    Json& calls = assistant(false)["tool_calls"];
    calls.push_back({{"id", item.string("call_id")},
                     {"type", "function"},
                     {"function", {{"name", item.string("name")}, {"arguments", item.string("arguments")}}}});
  }

  Json& messages_;
  bool open_ = false;
};

Json read_tools(const Json& tools) {
  Json out = Json::array();
  if (!tools.is_array()) throw RequestError(invalid("tools is a list", "tools"));
  for (const Json& tool : tools) {
    const Fields fields(tool, "tools.");
    if (fields.string("type") != "function") fields.refuse("type", "tools are functions: this server runs none itself");
    Json function = Json::object();
    for (const char* name : {"name", "description", "parameters", "strict"}) {
      if (const Json* value = fields.find(name)) function[name] = *value;
    }
    out.push_back({{"type", "function"}, {"function", function}});
  }
  return out;
}

Json read_format(const Fields& format) {
  if (format.string("type") != "json_schema") return format.json();
  Json schema = Json::object();
  for (const char* name : {"name", "schema", "strict"}) {
    if (const Json* value = format.find(name)) schema[name] = *value;
  }
  return {{"type", "json_schema"}, {"json_schema", schema}};
}

Json translated(const Fields& fields) {
  Json out = Json::object();
  for (const char* same : {"model", "temperature", "top_p", "top_k", "stream", "seed", "reasoning", "thinking",
                           "chat_template_kwargs", "parallel_tool_calls"}) {
    if (const Json* value = fields.find(same)) out[same] = *value;
  }
  if (const Json* most = fields.find("max_output_tokens")) out["max_tokens"] = *most;
  if (const Json* tools = fields.find("tools")) out["tools"] = read_tools(*tools);
  if (const Json* choice = fields.find("tool_choice")) {
    out["tool_choice"] =
        !choice->is_object()
            ? *choice
            : Json{{"type", "function"}, {"function", {{"name", Fields(*choice, "tool_choice.").string("name")}}}};
  }
  if (const auto text = fields.object("text")) {
    if (const auto format = text->object("format")) out["response_format"] = read_format(*format);
  }
  for (const char* absent : {"previous_response_id", "conversation", "prompt"}) {
    if (fields.has(absent)) fields.refuse(absent, "nothing is stored here: send the conversation as input");
  }
  if (fields.boolean("background", false)) fields.refuse("background", "answers are not made in the background here");
  Json& messages = out["messages"] = Json::array();
  if (fields.has("instructions")) {
    messages.push_back({{"role", "system"}, {"content", fields.string("instructions")}});
  }
  const Json* input = fields.find("input");
  if (!input || !(input->is_string() || input->is_array())) fields.refuse("input", "it is a string or a list of items");
  if (input->is_string()) {
    messages.push_back({{"role", "user"}, {"content", *input}});
    return out;
  }
  Conversation conversation(messages);
  for (size_t i = 0; i < input->size(); ++i) conversation.add((*input)[i], fmt::format("input[{}]", i));
  return out;
}

}  // namespace

Prepared prepare_response(const Json& json, const Knowledge& knows) {
  const Fields fields(json);
  Prepared p = prepare_chat(translated(fields), knows);
  Json echoed = Json::object();  // what an answer repeats of its request
  const auto echo = [&](const char* name, Json otherwise) {
    echoed[name] = fields.has(name) ? *fields.find(name) : std::move(otherwise);
  };
  const Request& request = p.requests.front();
  echo("instructions", nullptr);
  echo("max_output_tokens", nullptr);
  echo("metadata", Json::object());
  echo("parallel_tool_calls", true);
  echo("reasoning", {{"effort", nullptr}, {"summary", nullptr}});
  echo("temperature", request.sampling.temperature);
  echo("top_p", request.sampling.top_p);
  echo("text", {{"format", {{"type", "text"}}}});
  echo("tool_choice", "auto");
  echo("tools", Json::array());
  p.format = make_responses_format(model_name(fields, knows), std::move(echoed));
  return p;
}

}  // namespace nibble::serve
