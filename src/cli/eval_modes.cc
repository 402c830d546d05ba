// The modes of `nibble eval` that answer no problems: audit, comparison, perplexity; and the last lines of a score.
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/eval.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/terminal.h"
#include "eval/audit.h"
#include "eval/compare.h"
#include "eval/perplexity.h"

namespace nibble::cli {
namespace {

using nlohmann::ordered_json;

constexpr size_t kShown = 10;  // doubts, ids

// With a model, the prompts are made as the run made them and the tokens read; without one, problems need their ids.
eval::Audit audit_with(const EvalOptions& o, const std::string& records) {
  if (o.model.model.empty()) {
    const auto problems = read_problems(o, nullptr);
    for (const eval::Problem& p : problems) {
      if (!p.prompt.empty()) continue;
      throw Refusal({.what = "--audit " + o.audit,
                     .seen = "problem " + p.id + " has a question and no prompt_tokens",
                     .rule = "the prompts are part of what is checked, and the model's tokenizer makes them",
                     .fix = "-m DIR, the model of the run"});
    }
    return eval::audit(records, problems);
  }
  const auto directory = model_directory(o.model);
  const auto checkpoint = checkpoint::Checkpoint::open(directory);
  const auto tokenizer = text::Tokenizer::load(directory, checkpoint.config().vocab_size);
  eval::AuditModel model{.tokenizer = &tokenizer,
                         .fingerprint = eval::fingerprint(checkpoint),
                         .stop_ids = checkpoint.config().eos_token_id};
  for (const int32_t id : tokenizer.stop_ids()) model.stop_ids.push_back(id);
  return eval::audit(records, read_problems(o, &tokenizer), &model);
}

std::string listed(const std::vector<std::string>& ids) {
  const size_t shown = std::min(ids.size(), kShown);
  std::string out = fmt::format("{}", fmt::join(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(shown), " "));
  if (ids.size() > shown) out += fmt::format(" and {} more", ids.size() - shown);
  return out;
}

ordered_json to_json(const eval::Comparison& c) {
  const auto ids = [](const std::vector<std::string>& list) {
    ordered_json out = ordered_json::array();
    for (const std::string& id : list) out.push_back(ordered_json::parse(id));
    return out;
  };
  return {{"problems", c.problems},  {"right_a", c.right_a},
          {"right_b", c.right_b},    {"only_a", ids(c.only_a)},
          {"only_b", ids(c.only_b)}, {"other_tokens", ids(c.other_tokens)},
          {"mcnemar_p", c.p},        {"made_otherwise", c.made_otherwise}};
}

}  // namespace

eval::Reference parse_reference(const std::string& text, int64_t problems) {
  const size_t slash = text.find('/');
  eval::Reference out{.share = -1.0, .problems = problems};
  if (text.ends_with('%')) {
    out.share = parse_real("--reference", text.substr(0, text.size() - 1), {0, 100}) / 100.0;
  } else if (slash != text.npos) {
    const int64_t right = parse_count("--reference", text.substr(0, slash));
    out.problems = parse_count("--reference", text.substr(slash + 1));
    if (out.problems > 0 && right <= out.problems) {
      out.share = static_cast<double>(right) / static_cast<double>(out.problems);
    }
  }
  if (out.share >= 0.0) return out;
  throw Refusal({.what = "--reference " + text,
                 .seen = shortened(text),
                 .rule = "a score is right/problems, or a percentage of as many problems as there are here",
                 .fix = "--reference 1315/1319, or --reference 96.5%"});
}

void print_score(const EvalOptions& o, int64_t right, int64_t problems) {
  bool passed = true;
  if (!o.reference.empty()) {
    const eval::Reference reference = parse_reference(o.reference, problems);
    const double threshold = eval::pass_threshold(reference, problems);
    const double share = static_cast<double>(right) / static_cast<double>(problems);
    passed = share >= threshold;
    print(fmt::format("{:.4f} % right, threshold {:.4f} % (reference {:.4f} % of {}, one-sided 95 %): {}\n",
                      100.0 * share, 100.0 * threshold, 100.0 * reference.share, reference.problems,
                      passed ? "passed" : "failed"));
  }
  print(fmt::format("exact_match {}/{}\n", right, problems));
  flush_output();
  if (!passed) throw CLI::RuntimeError(kFailed);
}

void eval_audit(const EvalOptions& o) {
  if (o.problems.empty()) {
    throw Refusal({.what = "--audit " + o.audit,
                   .seen = "no --problems",
                   .rule = "a score is recomputed from the records and the problems",
                   .fix = "--problems FILE.jsonl, the one of the run"});
  }
  const eval::Audit result = audit_with(o, read_file("--audit", o.audit));
  for (size_t i = 0; i < std::min(result.doubts.size(), kShown); ++i) {
    fmt::print(stderr, "nibble: {}: {}\n", o.audit, result.doubts[i]);
  }
  if (result.doubts.size() > kShown) {
    fmt::print(stderr, "nibble: {}: and {} more\n", o.audit, result.doubts.size() - kShown);
  }
  if (!result.doubts.empty()) throw CLI::RuntimeError(kFailed);
  print(fmt::format("each of {} problems once, nothing to doubt{}\n", result.problems,
                    o.model.model.empty() ? "; -m DIR would check tokens and weights too" : ""));
  print_score(o, result.right, result.problems);
}

void eval_compare(const EvalOptions& o) {
  const std::string &name_a = o.compare[0], &name_b = o.compare[1];
  const eval::Comparison c =
      eval::compare(read_file("--compare", name_a), name_a, read_file("--compare", name_b), name_b);
  if (o.json) {
    print(to_json(c).dump() + "\n");
    return;
  }
  const auto only_a = static_cast<int64_t>(c.only_a.size());
  const auto row = [](const char* name, int64_t count, const std::string& ids) {
    print(fmt::format("{:<13} {:>6}{}{}\n", name, count, ids.empty() ? "" : "  ", ids));
  };
  print(fmt::format("A  {}  exact_match {}/{}\n", name_a, c.right_a, c.problems));
  print(fmt::format("B  {}  exact_match {}/{}\n\n", name_b, c.right_b, c.problems));
  row("both right", c.right_a - only_a, "");
  row("only A right", only_a, listed(c.only_a));
  row("only B right", c.right_b - c.right_a + only_a, listed(c.only_b));
  row("both wrong", c.problems - c.right_b - only_a, "");
  row("other tokens", static_cast<int64_t>(c.other_tokens.size()), listed(c.other_tokens));
  if (!c.made_otherwise.empty()) print(fmt::format("made with another {}\n", fmt::join(c.made_otherwise, "; ")));
  print(fmt::format("B - A {:+.4f} points, McNemar's exact p = {:.4g}\n",
                    100.0 * static_cast<double>(c.right_b - c.right_a) / static_cast<double>(c.problems), c.p));
}

void eval_text(const EvalOptions& o) {
  EngineOptions options = engine_options(o.model);
  const std::string text = read_file("--text", o.text);
  ProgressBar bar;
  options.progress = [&bar](std::string_view phase, int done, int total) { bar.update(phase, done, total); };
  engine::LoadedModel loaded(options);
  const std::vector<int32_t> tokens = loaded.tokenizer.encode(text);
  if (tokens.size() < 2) {
    throw Refusal({.what = "--text " + o.text,
                   .seen = fmt::format("{} tokens", tokens.size()),
                   .rule = "each token is predicted from those before it, so two are the least",
                   .fix = "a longer text"});
  }
  const int64_t most = loaded.checkpoint.config().max_position_embeddings;
  const int64_t window = options.context > 0 ? options.context : most;
  if (window < 2 || window > most) {
    throw Refusal({.what = fmt::format("--ctx-size {}", window),
                   .seen = fmt::format("a model of {} positions", most),
                   .rule = "a window of the text has 2 tokens or more, and no more than the model's positions",
                   .fix = fmt::format("--ctx-size {}", most)});
  }
  const eval::Perplexity p = eval::perplexity(options, loaded, tokens, window, [&bar](int64_t done, int64_t total) {
    bar.update("tokens", static_cast<int>(done), static_cast<int>(total));
  });
  bar.erase();
  if (o.json) {
    print(ordered_json{{"tokens", p.tokens},
                       {"predicted", p.predicted},
                       {"window", window},
                       {"nll", p.nll},
                       {"mean_nll", p.mean()},
                       {"perplexity", p.perplexity()}}
              .dump() +
          "\n");
    return;
  }
  print(
      fmt::format("{} tokens, {} predicted in windows of {}, mean negative log-likelihood {:.6f}, perplexity {:.6f}\n",
                  p.tokens, p.predicted, std::min(window, p.tokens), p.mean(), p.perplexity()));
}

}  // namespace nibble::cli
