// Who answers in a chat: a model in this process, or a server.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/common.h"
#include "cli/prompt.h"
#include "cli/terminal.h"
#include "nibble/engine.h"
#include "text/chat.h"

namespace nibble::cli {

class ChatModel {
 public:
  virtual ~ChatModel() = default;
  virtual std::string name() const = 0;  // as the greeting has it
  // Writes the answer as it comes and returns it; nothing where there was none, and stderr says why. Ctrl-C ends it.
  virtual std::optional<text::Message> answer(const std::vector<text::Message>& messages,
                                              InterruptGuard& interrupt) = 0;
};

// "nibble: ..." on stderr.
void note(std::string_view text);

std::unique_ptr<ChatModel> load_chat_model(const ModelOptions& model, const ChatOptions& chat, const Request& request);

struct Remote {
  std::string url;    // http(s)://host:port, with or without /v1
  std::string key;    // empty: none is sent
  std::string model;  // empty: the server's own
};
// Refuses what is no URL. Nothing is sent before the first turn.
std::unique_ptr<ChatModel> connect_chat_model(const Remote& remote, const ChatOptions& chat, const Request& request);

}  // namespace nibble::cli
