// A conversation, and its rendering as Kimi K3's prompt: segments of ordinary text and of control tokens, then ids.
//
// The prompt is never a string that is tokenised later. What a user, a tool or a client typed is always an ordinary
// segment, encoded with control names switched off, so it cannot become structure whatever it spells; and each part of
// a marker is a segment of its own, so no merge crosses from structure into data. docs/text.md has the format.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::text {

class Tokenizer;

enum class Role { kSystem, kDeveloper, kUser, kAssistant, kTool };

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON text as the client sent it: literals are kept, malformed text is carried as it is
};

struct Tool {
  std::string name;
  std::string declaration;          // the client's JSON object: keys sorted, compact, non-ASCII unescaped
  std::string parameters = {};      // the schema of its arguments in it, keys as they were sent; empty: none is there
  std::optional<bool> strict = {};  // whether arguments are held to it, where the client says so
};

struct Message {
  Role role = Role::kUser;
  std::string name;
  std::vector<std::string> content;  // text parts; each is encoded on its own
  std::string reasoning;             // assistant: the think channel of that turn
  std::vector<ToolCall> tool_calls;  // assistant
  std::string tool, tool_call_id;    // tool: which tool answered, and to which call
  std::vector<Tool> tools;           // system, developer: more tools from here on
};

enum class Effort { kLow, kHigh, kMax };

struct ToolChoice {
  enum class Kind { kAuto, kNone, kRequired, kNamed };
  Kind kind = Kind::kAuto;
  std::string name;  // kNamed
};

struct ResponseFormat {
  enum class Kind { kText, kJsonObject, kJsonSchema };
  Kind kind = Kind::kText;
  std::string schema = {};       // kJsonSchema: keys as they were sent
  std::string declaration = {};  // the same as the prompt has it: keys sorted, compact
};

struct RenderOptions {
  bool thinking = true;
  std::optional<Effort> effort = Effort::kMax;  // nothing: no effort message
  std::vector<Tool> tools;
  ToolChoice tool_choice;
  bool parallel_tool_calls = true;  // says nothing in the prompt
  ResponseFormat response_format;
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // reopen the last message, an assistant's; then no generation prompt
};

struct ChatRequest {
  std::vector<Message> messages;
  RenderOptions options;
};

// Reads a JSON messages array, or a chat-completions request object; fields that do not change the prompt are left to
// others. `defaults` is what the checkpoint and the command line say; the request's own switches win.
// Refuses what cannot be rendered, naming the field.
ChatRequest parse_chat(std::string_view json, const RenderOptions& defaults);

struct Segment {
  std::string text;
  bool control = false;  // text is then the name of one control token
  bool operator==(const Segment&) const = default;
};

// Where the prompt leaves the model: what its first token belongs to.
enum class Channel { kNone, kThink, kResponse };

struct Prompt {
  std::vector<Segment> segments;
  Channel channel = Channel::kNone;
};

Prompt render(const std::vector<Message>& messages, const RenderOptions& options);
std::vector<int32_t> encode(const std::vector<Segment>& segments, const Tokenizer& tokenizer);
// The same of a prompt that came as ids: those that end in an open think or response element are a chat's.
Channel channel_of(std::span<const int32_t> prompt, const Tokenizer& tokenizer);
std::string escape_attribute(std::string_view value);         // as between the quotes of a marker's attribute
std::string to_string(const std::vector<Segment>& segments);  // for logs and /apply-template; never to be tokenised

}  // namespace nibble::text
