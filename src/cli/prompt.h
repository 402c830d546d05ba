// The prompt, in each of the ways that a command line can give one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/common.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace nibble::cli {

struct PromptOptions {
  std::string text, file, tokens, tokens_file, chat;
  std::string system;               // of --system-prompt, where there is such a flag
  std::vector<CLI::Option*> given;  // the flags above, to know which were typed
};

// -p, -f, --tokens, --tokens-file; with `chat` also --chat.
void add_prompt_options(CLI::App& command, PromptOptions& options, bool chat);

// The switches of a chat's prompt.
struct ChatOptions {
  std::string effort;  // empty: what the checkpoint asks for
  bool no_thinking = false;
};
void add_chat_options(CLI::App& command, ChatOptions& options);
// What the checkpoint and the command line say; a request's own switches win. Throws Refusal.
text::RenderOptions render_options(const ChatOptions& options, const std::filesystem::path& model);

// Read and checked as far as that is possible without a tokenizer.
struct PromptSource {
  std::string text;                       // of -p and -f
  std::vector<int32_t> ids;               // of --tokens and --tokens-file
  std::optional<text::ChatRequest> chat;  // of --chat
};
// A system prompt comes before the messages of a chat, and makes one of a text. Refuses none or several, files that
// cannot be read, bad ids and bad JSON.
PromptSource read_prompt(const PromptOptions& options, const text::RenderOptions& defaults);

struct Prompt {
  std::vector<int32_t> ids;
  text::Channel channel = text::Channel::kNone;  // of a chat: what the first token of the answer belongs to
};
Prompt encode_prompt(const PromptSource& source, const text::Tokenizer& tokenizer);

}  // namespace nibble::cli
