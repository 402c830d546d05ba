// `nibble eval`: how many problems a model gets right, recorded so that the number can be checked.
#include "cli/eval.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/sampling.h"
#include "cli/terminal.h"
#include "eval/evaluate.h"
#include "eval/fingerprint.h"
#include "text/generation_defaults.h"

namespace nibble::cli {
namespace {

constexpr int64_t kMaxBatch = 4096;

// As long as any answer may get, so that no result depends on how much memory there is.
int64_t context_of(const EvalOptions& o, const std::vector<eval::Problem>& problems, int64_t model_context) {
  int64_t longest = 0;
  for (const eval::Problem& p : problems) longest = std::max(longest, static_cast<int64_t>(p.prompt.size()));
  const int64_t most = o.model.context > 0 ? std::min(o.model.context, model_context) : model_context;
  for (const eval::Problem& p : problems) {
    const auto size = static_cast<int64_t>(p.prompt.size());
    if (size < most) continue;
    throw Refusal({.what = "problem " + p.id,
                   .seen = fmt::format("a prompt of {} tokens", size),
                   .rule = fmt::format("with one generated token no more than the context of {} tokens", most),
                   .fix = "a shorter prompt, or a larger --ctx-size where the model allows it"});
  }
  return std::min(most, longest + o.max_tokens);
}

void require_flags(const EvalOptions& o) {
  if (!o.problems.empty() && !o.out.empty()) return;
  throw Refusal({.what = "nibble eval",
                 .seen = o.problems.empty() ? "no --problems" : "no --out",
                 .rule = "problems are answered from one file, and the answers recorded in another",
                 .fix = "--problems FILE.jsonl --out FILE.jsonl, or --audit, --compare or --text"});
}

void report(const eval::Evaluated& result, int64_t answered, double seconds) {
  const auto tokens = static_cast<double>(result.tokens);
  fmt::print(stderr, "nibble: {} problems, {} prompt tokens, {} tokens in {:.2f} s, {:.1f} tokens/s\n", answered,
             result.prompt_tokens, result.tokens, seconds, seconds > 0 ? tokens / seconds : 0.0);
}

void run(const EvalOptions& o) {
  require_flags(o);
  EngineOptions engine_opts = engine_options(o.model);
  ProgressBar bar;
  engine_opts.progress = [&bar](std::string_view phase, int done, int total) { bar.update(phase, done, total); };
  eval::Header header{.version = NIBBLE_VERSION,
                      .build = eval::program_fingerprint(),
                      .config = {},
                      .weights = {},
                      .device = std::string(open_device(o.model)->name()),
                      .precision = o.model.precision,
                      .mla_form = o.model.mla_form,
                      .max_tokens = o.max_tokens,
                      .hashes = {}};
  const auto checkpoint = checkpoint::Checkpoint::open(engine_opts.model);
  const auto tokenizer = text::Tokenizer::load(engine_opts.model, checkpoint.config().vocab_size);
  const std::vector<eval::Problem> problems = read_problems(o, &tokenizer);
  const eval::ModelFingerprint model = eval::fingerprint(checkpoint);
  header.config = model.config;
  header.weights = model.weights;
  header.context = context_of(o, problems, checkpoint.config().max_position_embeddings);
  header.problems = static_cast<int64_t>(problems.size());
  header.hashes = eval::hash(problems);
  eval::RecordFile out(o.out, header, problems, o.resume);

  const int64_t before = out.done();
  if (before < header.problems) {
    engine_opts.context = header.context;
    engine_opts.max_sequences = o.batch;
    Engine engine(engine_opts);
    bar.erase();
    InterruptGuard interrupt;
    const auto begin = std::chrono::steady_clock::now();
    const eval::Evaluated result = eval::evaluate(
        engine, tokenizer, problems, out,
        {.max_tokens = o.max_tokens,
         .batch = o.batch,
         .progress = [&](int64_t done,
                         int64_t total) { bar.update("eval", static_cast<int>(done), static_cast<int>(total)); },
         .stop = [&] { return interrupt.take(); }});
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    bar.erase();
    if (o.model.verbose) report(result, out.done() - before, seconds.count());
    if (!result.finished) {
      fmt::print(stderr, "nibble: interrupted; {} of {} problems are recorded, --resume goes on\n", out.done(),
                 header.problems);
      throw CLI::RuntimeError(kInterrupted);
    }
  }
  print_score(o, out.right(), header.problems);
}

void eval_command(const EvalOptions& o) {
  const int others = (o.audit.empty() ? 0 : 1) + (o.compare.empty() ? 0 : 1) + (o.text.empty() ? 0 : 1);
  if (others + (o.out.empty() ? 0 : 1) > 1) {
    throw Refusal({.what = "nibble eval",
                   .seen = "several of --out, --audit, --compare and --text",
                   .rule = "each is another task",
                   .fix = "one of them"});
  }
  if (!o.reference.empty()) parse_reference(o.reference, 1);  // for what it refuses, before any work
  if (!o.audit.empty()) return eval_audit(o);
  if (!o.compare.empty()) return eval_compare(o);
  if (!o.text.empty()) return eval_text(o);
  run(o);
}

}  // namespace

std::vector<eval::Problem> read_problems(const EvalOptions& o, const text::Tokenizer* tokenizer) {
  auto problems = eval::parse_problems(read_file("--problems", o.problems), "--problems " + o.problems, o.limit);
  if (tokenizer != nullptr) {
    text::RenderOptions render;
    render.effort = text::load_generation_defaults(model_directory(o.model)).effort;
    eval::tokenize(problems, *tokenizer, render);
  }
  return problems;
}

void add_eval(CLI::App& app) {
  CLI::App* command = app.add_subcommand("eval", "Count how many problems the model gets right, and check such counts");
  const auto o = std::make_shared<EvalOptions>();
  add_model_options(*command, o->model, "bf16");
  const auto add_count = [&](const char* names, const char* flag, int64_t& to, int64_t most, const char* what) {
    command
        ->add_option_function<std::string>(
            names,
            [flag, &to, most](const std::string& text) {
              to = parse_count(flag, text);
              if (to >= 1 && to <= most) return;
              throw Refusal({.what = fmt::format("{} {}", flag, text),
                             .seen = text,
                             .rule = fmt::format("from 1 to {}", most),
                             .fix = "a number in that range"});
            },
            what)
        ->type_name("N");
  };
  command->add_option("--problems", o->problems, "JSON lines with id, answer, and prompt_tokens or question")
      ->type_name("FILE");
  command->add_option("--out", o->out, "Where the records go, JSON lines in the order of the problems")
      ->type_name("FILE");
  command->add_flag("--resume", o->resume, "Go on with the records of a run that ended early");
  add_count("--batch", "--batch", o->batch, kMaxBatch,
            "Problems answered at once; no answer depends on it (default 8)");
  add_count("--limit", "--limit", o->limit, std::numeric_limits<int64_t>::max(), "Only the first N problems");
  add_max_tokens_option(*command, o->max_tokens, "Most tokens of an answer (default 512)");
  command
      ->add_option("--reference", o->reference,
                   "A score to be no worse than, 1315/1319 or 96.5%; exit code 1 where it is worse by more than chance")
      ->type_name("SCORE");
  command->add_option("--audit", o->audit, "Recompute the score of these records, and doubt all that can be doubted")
      ->type_name("FILE");
  command->add_option("--compare", o->compare, "Two files of records, problem by problem")
      ->type_name("A B")
      ->expected(2);
  command->add_option("--text", o->text, "Perplexity of a text instead; - is stdin")->type_name("FILE");
  command->add_flag("--json", o->json, "With --compare or --text: print one JSON object");
  command->callback([o] { eval_command(*o); });
}

}  // namespace nibble::cli
