// What the modes of `nibble eval` share: flags, and the problems they name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/common.h"
#include "eval/problems.h"
#include "eval/statistics.h"

namespace nibble::cli {

struct EvalOptions {
  ModelOptions model;
  std::string problems, out, audit, text;
  std::vector<std::string> compare;  // two files, or none
  int64_t limit = 0, batch = 8, max_tokens = 512;
  std::string reference;
  bool resume = false, json = false;
};

// "1315/1319", or "96.5%" of as many problems as there are. Throws Refusal.
eval::Reference parse_reference(const std::string& text, int64_t problems);
// Prints the pass threshold, where there is a reference, and then the last line. Throws a CLI::RuntimeError where the
// score is under it.
void print_score(const EvalOptions& options, int64_t right, int64_t problems);

// The problems that --problems and --limit name; with their prompts where a tokenizer is at hand.
std::vector<eval::Problem> read_problems(const EvalOptions& options, const text::Tokenizer* tokenizer);

void eval_audit(const EvalOptions& options);
void eval_compare(const EvalOptions& options);
void eval_text(const EvalOptions& options);

}  // namespace nibble::cli
