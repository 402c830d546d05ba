// `nibble chat`: a conversation on the terminal, or one turn a line of standard input.
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/error.h"
#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/line_reader.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/prompt.h"
#include "cli/run.h"
#include "cli/sampling.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "cli/writer.h"

namespace nibble::cli {
namespace {

struct Options {
  ModelOptions model;
  ChatOptions chat;
  Request request;
  std::string system;
};

constexpr std::string_view kHelp =
    "/clear  forget the conversation\n"
    "/exit   leave; Ctrl-D does too\n"
    "/help   this list\n"
    "Ctrl-C stops an answer; at the prompt, twice leaves.\n";

void note(std::string_view text) { fmt::print(stderr, "nibble: {}\n", text); }

class Chat {
 public:
  Chat(const Options& options, const EngineOptions& engine, text::RenderOptions render)
      : options_(options), render_(std::move(render)), session_(engine) {
    clear();
  }

  int run();

 private:
  enum class Next { kGoOn, kLeave };

  void clear();
  Next interrupted_at_prompt();
  Next take(const std::string& line);
  void turn(const std::string& line);
  bool answer();

  const Options& options_;
  text::RenderOptions render_;
  Session session_;
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
    print(fmt::format("{}{}, {} tokens of context. /help says what else there is.{}\n", style_.dim(),
                      options_.model.model, session_.context(), style_.reset()));
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
  bool answered = false;
  try {
    answered = answer();
  } catch (const Refusal& refusal) {  // text that is no UTF-8: the next line may be better
    note(one_line(refusal));
  }
  if (answered) return;
  messages_.pop_back();
  unanswered_ = true;
}

bool Chat::answer() {
  const text::Prompt rendered = text::render(messages_, render_);
  Request request = options_.request;
  request.prompt = text::encode(rendered.segments, session_.tokenizer());
  const auto size = static_cast<int64_t>(request.prompt.size());
  if (size >= session_.context()) {
    note(fmt::format(
        "the context is full: the conversation has {} tokens with this line, of {}; /clear starts a new one", size,
        session_.context()));
    return false;
  }
  Figures figures(size);
  ChatReader reader(session_.tokenizer(), rendered.channel, {});
  AnswerWriter writer;
  int64_t tokens = 0;
  interrupt_.take();  // one that came between the line and here meant the line
  const FinishReason finish = session_.run(
      std::move(request),
      [&](const Output& output) {
        figures.add(static_cast<int64_t>(output.tokens.size()));
        tokens += static_cast<int64_t>(output.tokens.size());
        writer.write(reader.push(output));
        return true;
      },
      [&] { return interrupt_.take(); });
  writer.write(reader.finish());
  writer.finish();
  print("\n");
  if (finish == FinishReason::kCancelled) note("stopped");
  if (finish == FinishReason::kLength && size + tokens >= session_.context()) {
    note(fmt::format("the context of {} tokens is full; /clear starts a new conversation", session_.context()));
  }
  if (options_.model.verbose) note(figures.line());
  Answer answer = reader.answer(finish);
  if (answer.tokens.empty()) return false;
  messages_.push_back(
      {.role = text::Role::kAssistant, .content = {std::move(answer.text)}, .reasoning = std::move(answer.reasoning)});
  return true;
}

void chat(const Options& o) {
  EngineOptions engine = engine_options(o.model);
  text::RenderOptions render = render_options(o.chat, engine.model);
  ProgressBar bar;
  engine.progress = [&bar](std::string_view phase, int done, int total) { bar.update(phase, done, total); };
  Chat conversation(o, engine, std::move(render));
  bar.erase();
  if (const int code = conversation.run(); code != kDone) throw CLI::RuntimeError(code);
}

}  // namespace

void add_chat(CLI::App& app) {
  CLI::App* command = app.add_subcommand("chat", "Talk with the model on the terminal, or a line of stdin at a time");
  const auto o = std::make_shared<Options>();
  add_model_options(*command, o->model, "bf16");
  add_chat_options(*command, o->chat);
  command->add_option("--system-prompt", o->system, "What the system message says; -sys too");
  add_max_tokens_option(*command, o->request.max_tokens,
                        "Most tokens an answer may have (default: until the context is full)");
  add_sampling_options(*command, o->request.sampling);
  command->callback([o] { chat(*o); });
}

}  // namespace nibble::cli
