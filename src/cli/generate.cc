// `nibble generate`: one prompt, one answer.
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "cli/sampling.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "cli/writer.h"
#include "constrain/chat_format.h"

namespace nibble::cli {
namespace {

struct Options {
  ModelOptions model;
  PromptOptions prompt;
  ChatOptions chat;
  Request request;
  bool json = false;
};

nlohmann::ordered_json to_json(const Answer& answer, bool chat) {
  nlohmann::ordered_json out = {
      {"tokens", answer.tokens}, {"text", answer.text}, {"finish_reason", answer.finish_reason}};
  if (!chat) return out;
  out["reasoning"] = answer.reasoning;
  out["tool_calls"] = nlohmann::ordered_json::array();
  for (const text::ChatAnswer::Call& call : answer.calls) {
    out["tool_calls"].push_back({{"name", call.name}, {"arguments", call.arguments}});
  }
  return out;
}

// Text to be continued: what the engine says is visible, is.
Answer complete(Session& session, const Request& request, bool stream, Figures& figures) {
  Answer answer;
  const FinishReason finish = session.run(request, [&](const Output& output) {
    figures.add(static_cast<int64_t>(output.tokens.size()));
    answer.tokens.insert(answer.tokens.end(), output.tokens.begin(), output.tokens.end());
    answer.text += output.text;
    if (stream) {
      print(output.text);
      flush_output();
    }
    return true;
  });
  if (stream) print("\n");
  answer.finish_reason = name_of(finish);
  return answer;
}

Answer reply(Session& session, Request request, text::Channel channel, bool stream, Figures& figures) {
  text::ChatReader reader(session.tokenizer(), channel, std::exchange(request.stop_strings, {}));
  AnswerWriter writer;
  std::vector<int32_t> tokens;
  const FinishReason finish = session.run(std::move(request), [&](const Output& output) {
    figures.add(static_cast<int64_t>(output.tokens.size()));
    tokens.insert(tokens.end(), output.tokens.begin(), output.tokens.end());
    const auto& events = reader.push(output.tokens);
    if (stream) writer.write(events);
    return !reader.stopped();
  });
  const auto& rest = reader.finish();
  if (stream) writer.write(rest), writer.finish();
  return chat_answer(reader, std::move(tokens), finish);
}

void generate(const Options& o) {
  EngineOptions options = engine_options(o.model);
  options.checkpoint_bytes = 0;  // nobody comes after
  const PromptSource source = read_prompt(o.prompt, render_options(o.chat, options.model));
  ProgressBar bar;
  options.progress = [&bar](std::string_view phase, int done, int total) { bar.update(phase, done, total); };
  Session session(options);
  bar.erase();
  Prompt prompt = encode_prompt(source, session.tokenizer());
  check_prompt(prompt.ids, session.vocabulary(), session.context());
  Request request = o.request;
  request.prompt = std::move(prompt.ids);
  if (source.chat) request.constraint = constrain::constraint_of(*source.chat, std::move(request.constraint));
  const bool chat = source.chat.has_value() || prompt.channel != text::Channel::kNone;
  Figures figures(static_cast<int64_t>(request.prompt.size()));
  const Answer answer = chat ? reply(session, std::move(request), prompt.channel, !o.json, figures)
                             : complete(session, request, !o.json, figures);
  if (o.json) print(to_json(answer, chat).dump() + "\n");
  flush_output();
  if (o.model.verbose) fmt::print(stderr, "nibble: {}\n", figures.line());
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Answer one prompt");
  const auto o = std::make_shared<Options>();
  add_model_options(*command, o->model, "bf16");
  add_prompt_options(*command, o->prompt, /*chat=*/true);
  add_chat_options(*command, o->chat);
  add_max_tokens_option(*command, o->request.max_tokens,
                        "Most tokens to generate (default, and -1: until the model stops or the context is full)");
  add_sampling_options(*command, o->request.sampling);
  add_constraint_options(*command, o->request.constraint);
  command
      ->add_option("--stop,-r,--reverse-prompt", o->request.stop_strings, "Text that ends the answer; may be repeated")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  command->add_option("--system-prompt", o->prompt.system,
                      "What a system message says, before --chat or around -p and -f; -sys too");
  command->add_flag("--ignore-eos", o->request.ignore_eos, "Go on where the model would stop");
  command->add_flag("--json", o->json, "Print one JSON object at the end");
  command->callback([o] { generate(*o); });
}

}  // namespace nibble::cli
