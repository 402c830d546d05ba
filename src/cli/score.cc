// `nibble score`: what the model predicts after each token of a text.
#include "engine/score.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cmath>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/prompt.h"
#include "cli/terminal.h"
#include "text/json_text.h"
#include "text/utf8_stream.h"

namespace nibble::cli {
namespace {

struct Options {
  ModelOptions model;
  PromptOptions prompt;
  engine::ScoreOptions score;
  bool json = false;
};

void run_json(const Options& o, const EngineOptions& engine, engine::LoadedModel& loaded,
              const std::vector<int32_t>& ids) {
  engine::score(engine, loaded, ids, o.score, [&ids](const engine::PositionScore& p) {
    // Not before: what may be refused has been by now.
    if (p.position == 0) print(fmt::format("{{\"tokens\":[{}],\"positions\":[", fmt::join(ids, ",")));
    // The shortest digits that read back as the same number.
    print(fmt::format("{}{{\"top_ids\":[{}],\"top_logits\":[{}],\"logsumexp\":{}}}", p.position == 0 ? "" : ",",
                      fmt::join(p.top_ids, ","), fmt::join(p.top_logits, ","), p.logsumexp));
  });
  print("]}\n");
}

// The bytes of a token, quoted and on one line; part of a character is U+FFFD.
std::string piece(const text::Tokenizer& tokenizer, int32_t id) {
  text::Utf8Stream characters;
  std::string out;
  characters.push(tokenizer.bytes(id), out);
  characters.finish(out);
  return text::json_quoted(out);
}

void run_table(const Options& o, const EngineOptions& engine, engine::LoadedModel& loaded,
               const std::vector<int32_t>& ids) {
  double sum = 0.0;
  double logprob = 0.0;  // of the token at hand, from the position before
  engine::score(engine, loaded, ids, o.score, [&](const engine::PositionScore& p) {
    const auto i = static_cast<size_t>(p.position);
    if (i == 0) {
      print(fmt::format("{:>8} {:>8} {:>10}  {:<20} {}\n", "position", "id", "logprob", "token", "likeliest next"));
    }
    const std::string shown = p.position == 0 ? std::string("-") : fmt::format("{:.4f}", logprob);
    std::string likeliest;
    for (size_t k = 0; k < std::min<size_t>(p.top_ids.size(), 3); ++k) {
      likeliest += fmt::format("{}{} {:.4f}", k == 0 ? "" : ", ", piece(loaded.tokenizer, p.top_ids[k]),
                               p.top_logits[k] - p.logsumexp);
    }
    print(fmt::format("{:>8} {:>8} {:>10}  {:<20} {}\n", p.position, ids[i], shown, piece(loaded.tokenizer, ids[i]),
                      likeliest));
    if (i + 1 == ids.size()) return;
    logprob = p.next_logit - p.logsumexp;
    sum -= logprob;
  });
  const auto predicted = static_cast<double>(ids.size() - 1);
  if (predicted == 0) return;
  print(fmt::format("\n{} tokens predicted, mean negative log-likelihood {:.6f}, perplexity {:.6f}\n", ids.size() - 1,
                    sum / predicted, std::exp(sum / predicted)));
}

void score(const Options& o) {
  const EngineOptions base = engine_options(o.model);
  const PromptSource source = read_prompt(o.prompt, {});
  EngineOptions options = base;
  ProgressBar bar;
  options.progress = [&bar](std::string_view phase, int done, int total) { bar.update(phase, done, total); };
  engine::LoadedModel loaded(options);
  bar.erase();
  const Prompt prompt = encode_prompt(source, loaded.tokenizer);
  const int64_t most = loaded.checkpoint.config().max_position_embeddings;
  check_prompt(prompt.ids, loaded.facts.vocabulary, options.context > 0 ? std::min(options.context, most) : most);
  o.json ? run_json(o, options, loaded, prompt.ids) : run_table(o, options, loaded, prompt.ids);
}

}  // namespace

void add_score(CLI::App& app) {
  CLI::App* command = app.add_subcommand("score", "Say what the model predicts after each token of a text");
  const auto o = std::make_shared<Options>();
  add_model_options(*command, o->model, "exact");
  add_prompt_options(*command, o->prompt, /*chat=*/false);
  command
      ->add_option_function<std::string>(
          "--top", [o](const std::string& text) { o->score.top = parse_count("--top", text); },
          "Likeliest tokens a position (default 8)")
      ->type_name("N");
  command
      ->add_option_function<std::string>(
          "--chunk", [o](const std::string& text) { o->score.chunk = parse_count("--chunk", text); },
          "Rows a step; changes memory and speed, no result (default: by the size of the vocabulary)")
      ->type_name("N");
  command->add_flag("--json", o->json, "Print one JSON object");
  command->callback([o] { score(*o); });
}

}  // namespace nibble::cli
