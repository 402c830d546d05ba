#include "cli/prompt.h"

#include <CLI/CLI.hpp>

#include <algorithm>

#include "base/error.h"
#include "cli/parse.h"
#include "text/generation_defaults.h"

namespace nibble::cli {
namespace {

[[noreturn]] void refuse_choice(const PromptOptions& options, const std::string& seen) {
  std::string flags;
  for (const CLI::Option* flag : options.given) flags += (flags.empty() ? "" : ", ") + flag->get_name();
  throw Refusal(
      {.what = "the prompt", .seen = seen, .rule = "it comes from one of " + flags, .fix = "-p \"some text\""});
}

void add_system_prompt(const std::string& system, const std::string& flag, const text::RenderOptions& defaults,
                       PromptSource& source) {
  const auto refuse = [&](const char* seen, const char* rule) {
    throw Refusal({.what = "--system-prompt", .seen = seen, .rule = rule, .fix = "-p \"some text\" beside it"});
  };
  if (flag == "--tokens" || flag == "--tokens-file") {
    refuse("token ids beside it", "ids are the whole prompt, and nothing is put around them");
  }
  if (!source.chat) {
    source.chat = text::ChatRequest{{{.role = text::Role::kUser, .content = {source.text}}}, defaults};
  }
  std::vector<text::Message>& messages = source.chat->messages;
  if (!messages.empty() && messages.front().role == text::Role::kSystem) {
    refuse("a system message in --chat", "a chat has one of them at its beginning");
  }
  messages.insert(messages.begin(), {.role = text::Role::kSystem, .content = {system}});
}

}  // namespace

void add_prompt_options(CLI::App& command, PromptOptions& options, bool chat) {
  const auto add = [&](const char* names, std::string& to, const char* type, const char* what) {
    options.given.push_back(command.add_option(names, to, what)->type_name(type));
  };
  add("-p,--prompt", options.text, "TEXT", "Text to continue as it is, with no chat around it");
  add("-f,--file", options.file, "FILE",
      "File with that text; one line break at its end is not part of it; - is stdin");
  add("--tokens", options.tokens, "IDS", "Token ids, 1,2,3");
  add("--tokens-file", options.tokens_file, "FILE", "File with token ids, apart by commas or white space; - is stdin");
  if (!chat) return;
  add("--chat", options.chat, "JSON", "JSON messages or a chat-completions request; @FILE reads a file, - stdin");
}

void add_chat_options(CLI::App& command, ChatOptions& options) {
  command.add_option("--effort", options.effort,
                     "How long to think: low, high or max (default: what the checkpoint says)");
  command.add_flag("--no-thinking", options.no_thinking, "Answer at once");
}

text::RenderOptions render_options(const ChatOptions& options, const std::filesystem::path& model) {
  text::RenderOptions out;
  out.effort = text::load_generation_defaults(model).effort;
  out.thinking = !options.no_thinking;
  if (options.effort.empty()) return out;
  if (options.effort == "low") {
    out.effort = text::Effort::kLow;
  } else if (options.effort == "high") {
    out.effort = text::Effort::kHigh;
  } else if (options.effort == "max") {
    out.effort = text::Effort::kMax;
  } else {
    throw Refusal({.what = "--effort " + options.effort,
                   .seen = shortened(options.effort),
                   .rule = "the model knows the efforts low, high and max",
                   .fix = "--effort high, or --no-thinking"});
  }
  return out;
}

PromptSource read_prompt(const PromptOptions& options, const text::RenderOptions& defaults) {
  std::vector<std::string> typed;
  for (const CLI::Option* flag : options.given) {
    if (flag->count() > 0) typed.push_back(flag->get_name());
  }
  if (typed.empty()) refuse_choice(options, "nothing");
  if (typed.size() > 1) refuse_choice(options, typed[0] + " and " + typed[1]);

  PromptSource source;
  const std::string& flag = typed.front();
  if (flag == "--prompt") {
    source.text = options.text;
  } else if (flag == "--file") {
    source.text = read_file("-f", options.file);
    if (source.text.ends_with('\n')) source.text.pop_back();
  } else if (flag == "--tokens") {
    source.ids = parse_ids("--tokens", options.tokens, /*spaces=*/false);
  } else if (flag == "--tokens-file") {
    source.ids = parse_ids("--tokens-file", read_file("--tokens-file", options.tokens_file), /*spaces=*/true);
  } else if (options.chat.starts_with('@')) {
    source.chat = text::parse_chat(read_file("--chat", options.chat.substr(1)), defaults);
  } else {
    source.chat = text::parse_chat(options.chat == "-" ? read_file("--chat", "-") : options.chat, defaults);
  }
  if (!options.system.empty()) add_system_prompt(options.system, flag, defaults, source);
  return source;
}

Prompt encode_prompt(const PromptSource& source, const text::Tokenizer& tokenizer) {
  if (source.chat) {
    const text::Prompt rendered = text::render(source.chat->messages, source.chat->options);
    return {.ids = text::encode(rendered.segments, tokenizer), .channel = rendered.channel};
  }
  if (!source.ids.empty()) return {.ids = source.ids, .channel = text::channel_of(source.ids, tokenizer)};
  return {.ids = tokenizer.encode(source.text)};
}

}  // namespace nibble::cli
