// K3's XTML, written: messages to segments.
#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "text/chat.h"
#include "text/json_text.h"
#include "text/tokenizer.h"

namespace nibble::text {

std::string escape_attribute(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

namespace {

using Attributes = std::vector<std::pair<std::string_view, std::string>>;

std::string effort_name(Effort effort) {
  return effort == Effort::kLow ? "low" : effort == Effort::kHigh ? "high" : "max";
}

std::string joined_declarations(const std::vector<Tool>& tools) {
  std::string out = "[";
  for (const Tool& tool : tools) out += (out.size() > 1 ? "," : "") + tool.declaration;
  return out + "]";
}

bool has_content(const Message& m) {
  return std::any_of(m.content.begin(), m.content.end(), [](const std::string& part) { return !part.empty(); });
}

class Renderer {
 public:
  explicit Renderer(const RenderOptions& options) : options_(options) {}
  Prompt render(const std::vector<Message>& messages);

 private:
  void control(std::string_view name) { prompt_.segments.push_back({std::string(name), true}); }
  void text(std::string_view text) {
    if (!text.empty()) prompt_.segments.push_back({std::string(text), false});
  }
  void open(std::string_view tag, const Attributes& attributes = {});
  void close(std::string_view tag);
  void end_message();
  void synthesised(std::string type, std::string_view body);
  void head();
  void tail();
  void check(const std::vector<Message>& messages);
  void message(const Message& m);
  void declare_more(const std::vector<Tool>& tools);
  void assistant(const Message& m, bool reopened);
  void calls(const std::vector<ToolCall>& calls);
  void arguments(const std::string& json);
  void tool_results(const Message* begin, const Message* end);

  const RenderOptions& options_;
  Prompt prompt_;
  const Message* last_assistant_ = nullptr;
  bool has_tools_ = false;
  int64_t results_since_assistant_ = 0;
};

void Renderer::open(std::string_view tag, const Attributes& attributes) {
  control("<|open|>");
  text(tag);
  for (const auto& [key, value] : attributes) {
    text(" " + std::string(key));
    text("=\"");
    text(escape_attribute(value));
    text("\"");
  }
  control("<|sep|>");
}

void Renderer::close(std::string_view tag) {
  control("<|close|>");
  text(tag);
  control("<|sep|>");
}

void Renderer::end_message() {
  close("message");
  control("<|end_of_msg|>");
}

void Renderer::synthesised(std::string type, std::string_view body) {
  open("message", {{"role", "system"}, {"type", std::move(type)}});
  text(body);
  end_message();
}

void Renderer::head() {
  std::vector<Tool> tools = options_.tools;
  if (options_.tool_choice.kind == ToolChoice::Kind::kNamed) {
    std::erase_if(tools, [&](const Tool& tool) { return tool.name != options_.tool_choice.name; });
  }
  if (!tools.empty()) {
    synthesised("tool-declare", "# Tools\nHere are the available tools, described in JSONSchema.\n\n```json\n" +
                                    joined_declarations(tools) + "\n```");
  }
  if (options_.thinking && options_.effort) {
    synthesised(
        "thinking-effort",
        "`thinking_effort` guides on how much to think in your thinking channel (not including the response "
        "channel), supported values include `low`, `medium`, `high`, and `max`.\nNow the system is invoked with "
        "`thinking_effort=" +
            effort_name(*options_.effort) + "`.");
  }
}

void Renderer::tail() {
  using Choice = ToolChoice::Kind;
  const Choice choice = options_.tool_choice.kind;
  if (choice == Choice::kRequired || choice == Choice::kNamed) {
    synthesised("tool-choice",
                "The system is invoked with `tool_choice=required`.\nYou MUST call tools in the next message.");
  } else if (choice == Choice::kNone && has_tools_) {
    synthesised("tool-choice",
                "The system is invoked with `tool_choice=none`.\nYou MUST NOT call any tools in the next message.");
  }
  const ResponseFormat& format = options_.response_format;
  if (format.kind == ResponseFormat::Kind::kText) return;
  const bool schema = format.kind == ResponseFormat::Kind::kJsonSchema;
  synthesised(
      "response-format",
      std::string("The system is invoked with `response_format=") + (schema ? "json_schema" : "json_object") +
          "`.\nYour response must be raw JSON data without markdown code blocks (```json) or any additional "
          "formatting." +
          (schema ? "\nThe JSON data must match the following schema:\n```json\n" + format.declaration + "\n```" : ""));
}

void Renderer::declare_more(const std::vector<Tool>& tools) {
  synthesised(
      "tool-declare",
      "## New Tools Available\nThe system dynamically extends the toolset via lazy-loading.\nYou have access to "
      "all existing and extended tools.\nHere are the specs for the extended tools.\n\n```json\n" +
          joined_declarations(tools) + "\n```");
}

// A system or user turn. A system message that brings tools is its declaration and nothing else; a developer's may have
// both, and then is two messages.
void Renderer::message(const Message& m) {
  if (!m.tools.empty()) {
    declare_more(m.tools);
    if (m.role == Role::kSystem || !has_content(m)) return;
  }
  Attributes attributes = {{"role", m.role == Role::kUser ? "user" : "system"}};
  if (!m.name.empty()) attributes.emplace_back("name", m.name);
  open("message", attributes);
  for (const std::string& part : m.content) text(part);
  end_message();
}

// Every assistant turn has a think element while thinking is on, and a response element always, empty or not. A
// reopened turn stops after its text: inside think if it has reasoning only, else inside response.
void Renderer::assistant(const Message& m, bool reopened) {
  last_assistant_ = &m;
  results_since_assistant_ = 0;
  Attributes attributes = {{"role", "assistant"}};
  if (!m.name.empty()) attributes.emplace_back("name", m.name);
  open("message", attributes);
  const bool blank = m.reasoning.find_first_not_of(" \t\r\n\f\v") == std::string::npos;
  if (options_.thinking) {
    open("think");
    if (!blank) text(m.reasoning);
    if (reopened && !blank && !has_content(m)) {
      prompt_.channel = Channel::kThink;
      return;
    }
    close("think");
  }
  open("response");
  for (const std::string& part : m.content) text(part);
  if (reopened) {
    prompt_.channel = Channel::kResponse;
    return;
  }
  close("response");
  if (!m.tool_calls.empty()) calls(m.tool_calls);
  end_message();
}

void Renderer::calls(const std::vector<ToolCall>& calls) {
  open("tools");
  for (size_t i = 0; i < calls.size(); ++i) {
    open("call", {{"tool", calls[i].name}, {"index", std::to_string(i + 1)}});
    arguments(calls[i].arguments);
    close("call");
  }
  close("tools");
}

// One level of the object becomes elements; a value keeps its literal. Text that is no object goes in whole, because
// clients store such calls and must be able to send them back.
void Renderer::arguments(const std::string& json) {
  if (json.empty()) return;
  const auto members = json_members(json);
  if (!members) {
    open("json", {{"type", "object"}});
    text(json);
    return close("json");
  }
  for (const JsonMember& member : *members) {
    open("argument", {{"key", member.key}, {"type", member.type}});
    text(member.literal[0] == '"' ? json_decode_string(member.literal) : std::string(member.literal));
    close("argument");
  }
}

// A run of consecutive tool messages: in call order if every one of them names a call of the last assistant turn.
void Renderer::tool_results(const Message* begin, const Message* end) {
  std::map<std::string_view, size_t> position;  // of a call's id; of equal ids the first counts
  if (last_assistant_) {
    const auto& calls = last_assistant_->tool_calls;
    for (size_t i = 0; i < calls.size(); ++i) {
      if (!calls[i].id.empty()) position.emplace(calls[i].id, i);
    }
  }
  std::vector<const Message*> run;
  for (const Message* m = begin; m != end; ++m) run.push_back(m);
  const auto call_of = [&](const Message* m) { return position.find(m->tool_call_id); };
  const bool all_known = std::all_of(run.begin(), run.end(), [&](auto* m) { return call_of(m) != position.end(); });
  if (all_known) {
    std::stable_sort(run.begin(), run.end(), [&](auto* a, auto* b) { return call_of(a)->second < call_of(b)->second; });
  }
  for (const Message* m : run) {
    const auto call = call_of(m);
    std::string name = !m->tool.empty() ? m->tool : m->name;
    if (call != position.end() && (all_known || name.empty())) name = last_assistant_->tool_calls[call->second].name;
    if (name.empty()) {
      throw Refusal(
          {.what = "messages: a message of role tool",
           .seen = "no tool name, and tool_call_id \"" + m->tool_call_id + "\" is no call of the last assistant turn",
           .rule = "a tool result is rendered with the name of its tool",
           .fix = "send the tool_call_id of the call, or the tool's name as `name`"});
    }
    open("message",
         {{"role", "tool"}, {"tool", std::move(name)}, {"index", std::to_string(++results_since_assistant_)}});
    for (const std::string& part : m->content) text(part);
    end_message();
  }
}

// What the request asks for and the messages cannot give.
void Renderer::check(const std::vector<Message>& messages) {
  const auto& choice = options_.tool_choice;
  has_tools_ = !options_.tools.empty() ||
               std::any_of(messages.begin(), messages.end(), [](const Message& m) { return !m.tools.empty(); });
  if (choice.kind == ToolChoice::Kind::kRequired && !has_tools_) {
    throw Refusal({.what = "tool_choice \"required\"",
                   .seen = "no tools in the request",
                   .rule = "a call can be required only where a tool is declared",
                   .fix = "declare tools, or leave tool_choice out"});
  }
  const auto chosen = [&](const Tool& tool) { return tool.name == choice.name; };
  if (choice.kind == ToolChoice::Kind::kNamed && std::none_of(options_.tools.begin(), options_.tools.end(), chosen)) {
    throw Refusal({.what = "tool_choice: function \"" + choice.name + "\"",
                   .seen = "no tool of that name in tools",
                   .rule = "tool_choice names one of the declared tools",
                   .fix = "declare the function in tools, or name one that is there"});
  }
  if (!options_.continue_final_message) return;
  if (messages.empty() || messages.back().role != Role::kAssistant || !messages.back().tool_calls.empty()) {
    throw Refusal({.what = "continue_final_message true",
                   .seen = "the last message is not an assistant's, or it calls tools",
                   .rule = "only an assistant's text can be continued",
                   .fix = "end messages with an assistant message that has content or reasoning_content only"});
  }
}

Prompt Renderer::render(const std::vector<Message>& messages) {
  check(messages);
  const bool reopen = options_.continue_final_message;
  head();
  const Message* const end = messages.data() + messages.size();
  for (const Message* m = messages.data(); m != end;) {
    if (m->role == Role::kTool) {
      const Message* run_end = m;
      while (run_end != end && run_end->role == Role::kTool) ++run_end;
      tool_results(m, run_end);
      m = run_end;
      continue;
    }
    const bool last = reopen && m + 1 == end;
    if (last) tail();  // what precedes a generation prompt precedes a reopened turn
    if (m->role == Role::kAssistant) {
      assistant(*m, last);
    } else {
      message(*m);
    }
    ++m;
  }
  if (reopen) return std::move(prompt_);
  tail();
  if (options_.add_generation_prompt) {
    open("message", {{"role", "assistant"}});
    open(options_.thinking ? "think" : "response");
    prompt_.channel = options_.thinking ? Channel::kThink : Channel::kResponse;
  }
  return std::move(prompt_);
}

}  // namespace

Prompt render(const std::vector<Message>& messages, const RenderOptions& options) {
  return Renderer(options).render(messages);
}

std::vector<int32_t> encode(const std::vector<Segment>& segments, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (const Segment& segment : segments) {
    if (!segment.control) {
      const std::vector<int32_t> part = tokenizer.encode(segment.text);
      ids.insert(ids.end(), part.begin(), part.end());
      continue;
    }
    const std::optional<int32_t> id = tokenizer.control_id(segment.text);
    if (!id) throw ContractError("encode: a control segment names no control token: " + segment.text);
    ids.push_back(*id);
  }
  return ids;
}

Channel channel_of(std::span<const int32_t> ids, const Tokenizer& tokenizer) {
  const auto id_of = [&](const char* name) { return tokenizer.control_id(name); };
  if (ids.empty() || id_of("<|sep|>") != ids.back()) return Channel::kNone;
  constexpr size_t kLongestTag = 8;  // "response", were it one token a byte
  std::string tag;
  for (size_t i = ids.size() - 1; i-- > 0 && ids.size() - i <= kLongestTag + 2;) {
    if (id_of("<|open|>") == ids[i]) {
      return tag == "think" ? Channel::kThink : tag == "response" ? Channel::kResponse : Channel::kNone;
    }
    if (!tokenizer.contains(ids[i])) break;
    tag.insert(0, tokenizer.bytes(ids[i]));
  }
  return Channel::kNone;
}

std::string to_string(const std::vector<Segment>& segments) {
  std::string out;
  for (const Segment& segment : segments) out += segment.text;
  return out;
}

}  // namespace nibble::text
