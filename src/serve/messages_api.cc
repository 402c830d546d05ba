// POST /v1/messages, Anthropic's form: translated into a chat, and its answer back. The common part of it.
#include <fmt/format.h>

#include "serve/prepared.h"
#include "serve/tokenize_api.h"
#include "text/json_text.h"

namespace nibble::serve {
namespace {

using text::json_quoted;
using Kind = text::ChatEvent::Kind;

std::string sse(std::string_view type, const Json& data) {
  return fmt::format("event: {}\ndata: {}\n\n", type, data.dump());
}

Json usage_of(const Usage& u) {
  return {{"input_tokens", u.prompt - u.cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", u.cached},
          {"output_tokens", u.completion}};
}

class MessagesFormat final : public Format {
 public:
  MessagesFormat(std::string model, int64_t prompt_tokens)
      : model_(std::move(model)), prompt_tokens_(prompt_tokens), id_(new_id("msg_")) {}

  void begin(std::string& out) override {
    Json message = shell();
    message["usage"] = usage_of({.prompt = prompt_tokens_});
    out += sse("message_start", {{"type", "message_start"}, {"message", message}});
  }

  void event(int32_t, const text::ChatEvent& event, std::span<const TokenLogprob>, const Usage&,
             std::string& out) override {
    switch (event.kind) {
      case Kind::kReasoning:
        return delta("thinking", {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}, "thinking_delta",
                     "thinking", event.text, out);
      case Kind::kContent:
        return delta("text", {{"type", "text"}, {"text", ""}}, "text_delta", "text", event.text, out);
      case Kind::kCallBegin:
        close_block(out);
        return open_block(
            "tool_use",
            {{"type", "tool_use"}, {"id", new_id("toolu_")}, {"name", event.text}, {"input", Json::object()}}, out);
      case Kind::kCallArguments: return delta("tool_use", {}, "input_json_delta", "partial_json", event.text, out);
      case Kind::kCallEnd: return;
    }
  }

  void finish(int32_t, const Choice& whole, std::span<const TokenLogprob>, const Usage& so_far,
              std::string& out) override {
    close_block(out);
    out += sse("message_delta", {{"type", "message_delta"}, {"delta", ending(whole)}, {"usage", usage_of(so_far)}});
  }

  void end(const Usage&, std::string& out) override { out += sse("message_stop", {{"type", "message_stop"}}); }

  void error(const ApiError& error, std::string& out) override {
    out += fmt::format("event: error\ndata: {}\n\n", to_json(error, Dialect::kAnthropic));
  }

  std::string whole(std::span<const Choice> choices, const Usage& usage) override {
    const text::ChatAnswer& a = choices.front().answer;
    Json message = shell();
    Json& content = message["content"];
    if (!a.reasoning.empty()) content.push_back({{"type", "thinking"}, {"thinking", a.reasoning}, {"signature", ""}});
    if (!a.content.empty()) content.push_back({{"type", "text"}, {"text", a.content}});
    for (const auto& call : a.calls) {
      Json input = Json::parse(call.arguments, nullptr, /*allow_exceptions=*/false);
      if (!input.is_object()) continue;  // cut short: an input is whole or it is none
      content.push_back({{"type", "tool_use"}, {"id", new_id("toolu_")}, {"name", call.name}, {"input", input}});
    }
    message.update(ending(choices.front()));
    message["usage"] = usage_of(usage);
    return message.dump();
  }

 private:
  Json shell() const {
    return {{"id", id_},
            {"type", "message"},
            {"role", "assistant"},
            {"model", model_},
            {"content", Json::array()},
            {"stop_reason", nullptr},
            {"stop_sequence", nullptr}};
  }

  static Json ending(const Choice& c) {
    const bool stopped = !c.stop_string.empty();
    const char* reason = c.finish_reason == "length"       ? "max_tokens"
                         : stopped                         ? "stop_sequence"
                         : c.finish_reason == "tool_calls" ? "tool_use"
                                                           : "end_turn";
    return {{"stop_reason", reason}, {"stop_sequence", stopped ? Json(c.stop_string) : Json()}};
  }

  void delta(const char* kind, Json block, const char* type, const char* field, const std::string& text,
             std::string& out) {
    if (open_ != kind) {
      close_block(out);
      open_block(kind, std::move(block), out);
    }
    out += fmt::format(
        "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":{},"
        "\"delta\":{{\"type\":\"{}\",\"{}\":{}}}}}\n\n",
        index_, type, field, json_quoted(text));
  }

  void open_block(std::string kind, Json block, std::string& out) {
    open_ = std::move(kind);
    ++index_;
    out += sse("content_block_start",
               {{"type", "content_block_start"}, {"index", index_}, {"content_block", std::move(block)}});
  }

  void close_block(std::string& out) {
    if (open_.empty()) return;
    open_.clear();
    out += sse("content_block_stop", {{"type", "content_block_stop"}, {"index", index_}});
  }

  std::string model_;
  int64_t prompt_tokens_;
  std::string id_, open_;  // open_: the kind of block that deltas go to
  int32_t index_ = -1;
};

// A string, or the text of blocks.
Json text_content(const Json& content, const std::string& where) {
  if (content.is_string() || content.is_null()) return content;
  if (!content.is_array()) throw RequestError(invalid(where + " is a string or a list of blocks", where));
  Json parts = Json::array();
  for (const Json& block : content) {
    const Fields fields(block, where + ".");
    // Others are passed on, so that they are refused by their own name.
    parts.push_back(fields.string("type") == "text" ? Json{{"type", "text"}, {"text", fields.string("text")}} : block);
  }
  return parts;
}

void add_user(const Json& content, const std::string& where, Json& messages) {
  if (!content.is_array()) return messages.push_back({{"role", "user"}, {"content", content}});
  Json parts = Json::array();
  for (const Json& block : content) {
    const Fields fields(block, where + ".");
    if (fields.string("type") == "tool_result") {
      const Json* result = fields.find("content");
      messages.push_back({{"role", "tool"},
                          {"tool_call_id", fields.string("tool_use_id")},
                          {"content", result ? text_content(*result, where) : Json("")}});
    } else {
      parts.push_back(block);
    }
  }
  if (!parts.empty()) messages.push_back({{"role", "user"}, {"content", parts}});
}

void add_assistant(const Json& content, const std::string& where, Json& messages) {
  Json message = {{"role", "assistant"}};
  std::string reasoning;
  Json parts = Json::array(), calls = Json::array();
  if (!content.is_array()) {
    message["content"] = content;
    return messages.push_back(message);
  }
  for (const Json& block : content) {
    const Fields fields(block, where + ".");
    const std::string type = fields.string("type");
    if (type == "thinking") {
      reasoning += fields.string("thinking");
    } else if (type == "tool_use") {
      const Json* input = fields.find("input");
      calls.push_back(
          {{"id", fields.string("id")},
           {"type", "function"},
           {"function", {{"name", fields.string("name")}, {"arguments", input ? *input : Json::object()}}}});
    } else if (type != "redacted_thinking") {
      parts.push_back(block);
    }
  }
  message["content"] = parts;
  if (!reasoning.empty()) message["reasoning_content"] = reasoning;
  if (!calls.empty()) message["tool_calls"] = calls;
  messages.push_back(message);
}

Json read_tools(const Json& tools) {
  Json out = Json::array();
  if (!tools.is_array()) throw RequestError(invalid("tools is a list", "tools"));
  for (const Json& tool : tools) {
    const Fields fields(tool, "tools.");
    Json function = {{"name", fields.string("name")}};
    if (fields.has("description")) function["description"] = fields.string("description");
    if (const Json* schema = fields.find("input_schema")) function["parameters"] = *schema;
    if (const Json* strict = fields.find("strict")) function["strict"] = *strict;
    out.push_back({{"type", "function"}, {"function", function}});
  }
  return out;
}

Json read_tool_choice(const Fields& choice) {
  const std::string type = choice.string("type");
  if (type == "any") return "required";
  if (type == "tool") return {{"type", "function"}, {"function", {{"name", choice.string("name")}}}};
  return type;  // auto and none; others are refused as they are
}

// The same request, as a chat.
Json translated(const Json& json) {
  const Fields fields(json);
  Json out = Json::object();
  for (const char* same : {"model", "max_tokens", "temperature", "top_p", "top_k", "stream", "seed", "thinking",
                           "chat_template_kwargs", "reasoning_effort"}) {
    if (const Json* value = fields.find(same)) out[same] = *value;
  }
  if (const auto thinking = fields.object("thinking")) {  // a budget is nothing that the model knows
    out["thinking"] = {{"type", thinking->string("type") == "disabled" ? "disabled" : "enabled"}};
  }
  if (const Json* stops = fields.find("stop_sequences")) out["stop"] = *stops;
  if (const Json* tools = fields.find("tools")) out["tools"] = read_tools(*tools);
  if (const auto choice = fields.object("tool_choice")) {
    out["tool_choice"] = read_tool_choice(*choice);
    if (choice->boolean("disable_parallel_tool_use", false)) out["parallel_tool_calls"] = false;
  }
  Json& messages = out["messages"] = Json::array();
  if (const Json* system = fields.find("system")) {
    messages.push_back({{"role", "system"}, {"content", text_content(*system, "system")}});
  }
  const Json* list = fields.find("messages");
  if (!list || !list->is_array()) fields.refuse("messages", "it is a list of messages");
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string where = fmt::format("messages[{}]", i);
    const Fields message((*list)[i], where + ".");
    const Json* content = message.find("content");
    const std::string role = message.string("role");
    if (role == "user") {
      add_user(content ? *content : Json(), where + ".content", messages);
    } else if (role == "assistant") {
      add_assistant(content ? *content : Json(), where + ".content", messages);
    } else {
      message.refuse("role", "it is user or assistant");
    }
  }
  return out;
}

}  // namespace

Prepared prepare_messages(const Json& json, const Knowledge& knows) {
  const Fields fields(json);
  if (!fields.has("max_tokens")) fields.refuse("max_tokens", "it is needed here");
  Prepared p = prepare_chat(translated(json), knows);
  p.format = std::make_unique<MessagesFormat>(model_name(fields, knows),
                                              static_cast<int64_t>(p.requests.front().prompt.size()));
  return p;
}

std::string count_tokens(const Json& json, const Knowledge& knows) {
  const Json chat = translated(json);
  model_name(Fields(chat), knows);
  Request request;
  text::Channel channel = text::Channel::kNone;
  read_chat_prompt(chat, knows, request, channel);
  return fmt::format(R"({{"input_tokens":{}}})", request.prompt.size());
}

}  // namespace nibble::serve
