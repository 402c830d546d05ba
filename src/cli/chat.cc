// `nibble chat`: a conversation on the terminal, or one turn a line of standard input.
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <optional>

#include "base/error.h"
#include "cli/chat_model.h"
#include "cli/commands.h"
#include "cli/line_reader.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/run.h"
#include "cli/sampling.h"

namespace nibble::cli {
namespace {

struct Options {
  ModelOptions model;
  ChatOptions chat;
  Request request;
  std::string system;
  std::string url, key;
};

constexpr std::string_view kHelp =
    "/clear  forget the conversation\n"
    "/exit   leave; Ctrl-D does too\n"
    "/help   this list\n"
    "Ctrl-C stops an answer; at the prompt, twice leaves.\n";

class Chat {
 public:
  Chat(const Options& options, std::unique_ptr<ChatModel> model) : options_(options), model_(std::move(model)) {
    clear();
  }

  int run();

 private:
  enum class Next { kGoOn, kLeave };

  void clear();
  Next interrupted_at_prompt();
  Next take(const std::string& line);
  void turn(const std::string& line);

  const Options& options_;
  std::unique_ptr<ChatModel> model_;
  InterruptGuard interrupt_;  // after loading: until then Ctrl-C ends the program
  LineReader lines_;
  Style style_{stdout};
  bool terminal_ = is_terminal(stdin);
  bool asked_to_leave_ = false;  // Ctrl-C at the prompt, once
  bool unanswered_ = false;      // a turn had no answer
  std::vector<text::Message> messages_;
};

void Chat::clear() {
  messages_.clear();
  if (!options_.system.empty()) messages_.push_back({.role = text::Role::kSystem, .content = {options_.system}});
}

// 0 after /exit or the end of input; piped, 1 where a turn had no answer: nobody was there to see it.
int Chat::run() {
  if (terminal_) {
    print(fmt::format("{}{}. /help says what else there is.{}\n", style_.dim(), model_->name(), style_.reset()));
  }
  std::string line;
  while (true) {
    if (terminal_) print(fmt::format("{}> {}", style_.bold(), style_.reset()));
    flush_output();
    const LineReader::Status status = lines_.read(line, interrupt_);
    if (status == LineReader::Status::kEnd) break;
    if (status == LineReader::Status::kInterrupt) {
      if (!interrupt_.take()) continue;
      if (interrupted_at_prompt() == Next::kLeave) return kInterrupted;
      continue;
    }
    asked_to_leave_ = false;
    if (take(line) == Next::kLeave) return unanswered_ && !terminal_ ? kFailed : kDone;
  }
  if (terminal_) print("\n");
  return unanswered_ && !terminal_ ? kFailed : kDone;
}

Chat::Next Chat::interrupted_at_prompt() {
  if (asked_to_leave_ || !terminal_) {
    if (terminal_) print("\n");
    return Next::kLeave;
  }
  asked_to_leave_ = true;
  print("\n(Ctrl-C again leaves)\n");
  return Next::kGoOn;
}

Chat::Next Chat::take(const std::string& line) {
  if (line.find_first_not_of(" \t") == line.npos) return Next::kGoOn;
  if (!line.starts_with('/')) {
    turn(line);
  } else if (line == "/exit" || line == "/quit") {
    return Next::kLeave;
  } else if (line == "/clear") {
    clear();
    if (terminal_) print("(a new conversation)\n");
  } else if (line == "/help") {
    print(kHelp);
  } else {
    note(fmt::format("{}: no such command; /help lists them", shortened(line)));
    unanswered_ = true;
  }
  return Next::kGoOn;
}

// A turn that had no answer leaves no trace in the conversation.
void Chat::turn(const std::string& line) {
  messages_.push_back({.role = text::Role::kUser, .content = {line}});
  std::optional<text::Message> answer;
  try {
    answer = model_->answer(messages_, interrupt_);
  } catch (const Refusal& refusal) {  // text that is no UTF-8: the next line may be better
    note(one_line(refusal));
  }
  if (answer) return messages_.push_back(std::move(*answer));
  messages_.pop_back();
  unanswered_ = true;
}

// NIBBLE_MODEL names a directory, which a server knows nothing of; what was typed is a name.
std::string name_for_a_server(const std::string& model) {
  const char* const directory = std::getenv("NIBBLE_MODEL");
  return directory != nullptr && model == directory ? std::string() : model;
}

std::unique_ptr<ChatModel> open_model(const Options& o) {
  if (o.url.empty()) return load_chat_model(o.model, o.chat, o.request);
  return connect_chat_model({.url = o.url, .key = o.key, .model = name_for_a_server(o.model.model)}, o.chat, o.request);
}

void chat(const Options& o) {
  Chat conversation(o, open_model(o));
  if (const int code = conversation.run(); code != kDone) throw CLI::RuntimeError(code);
}

}  // namespace

void add_chat(CLI::App& app) {
  CLI::App* command = app.add_subcommand("chat", "Talk with the model on the terminal, or a line of stdin at a time");
  const auto o = std::make_shared<Options>();
  add_model_options(*command, o->model, "bf16");
  add_chat_options(*command, o->chat);
  command->add_option("--system-prompt", o->system, "What the system message says; -sys too");
  command->add_option("--url", o->url, "Talk to a server of OpenAI's API instead; -m is then the name of its model");
  command->add_option("--api-key", o->key, "Key for that server")->envname("NIBBLE_API_KEY");
  add_max_tokens_option(*command, o->request.max_tokens,
                        "Most tokens an answer may have (default: until the context is full)");
  add_sampling_options(*command, o->request.sampling);
  command->callback([o] { chat(*o); });
}

}  // namespace nibble::cli
