#include "eval/compare.h"

#include "base/error.h"
#include "eval/record.h"
#include "eval/statistics.h"

namespace nibble::eval {
namespace {

struct Run {
  Header header;
  std::vector<Record> records;
};

Run read(std::string_view text, std::string_view name) {
  const auto refuse = [&](std::string seen, std::string fix) {
    throw Refusal({.what = std::string(name),
                   .seen = std::move(seen),
                   .rule = "a file that nibble eval wrote to its end",
                   .fix = std::move(fix)});
  };
  const Lines lines = split_lines(text);
  const auto header = lines.whole.empty() ? std::nullopt : parse_header(lines.whole.front());
  if (!header) refuse("no header", "check the path");
  Run run{.header = *header, .records = {}};
  const auto count = static_cast<int64_t>(lines.whole.size()) - 1;
  if (count != header->problems || !lines.torn.empty()) {
    refuse(std::to_string(count) + " records of " + std::to_string(header->problems), "finish it with --resume");
  }
  std::vector<Problem> problems;  // as far as the records tell
  for (size_t i = 1; i < lines.whole.size(); ++i) {
    const auto record = parse_record(lines.whole[i]);
    const std::string wrong = record ? contradiction(*record) : "no record";
    if (!wrong.empty()) refuse("line " + std::to_string(i + 1) + ": " + wrong, "--audit says all of it");
    problems.push_back({.id = record->id, .question = {}, .answer = record->expected, .prompt = {}});
    run.records.push_back(*record);
  }
  const ProblemHashes hashes = hash(problems);
  if (hashes.ids != header->hashes.ids || hashes.answers != header->hashes.answers) {
    refuse("records of other problems than its header's", "--audit says all of it");
  }
  return run;
}

}  // namespace

Comparison compare(std::string_view a, std::string_view name_a, std::string_view b, std::string_view name_b) {
  const Run left = read(a, name_a), right = read(b, name_b);
  if (left.header.hashes != right.header.hashes) {
    throw Refusal({.what = std::string(name_a) + " and " + std::string(name_b),
                   .seen = "other problems, prompts or answers (the hashes of the headers differ)",
                   .rule = "differences are paired, so both are of the same problems",
                   .fix = "two runs over one --problems file, with the same --limit"});
  }
  Comparison out{.problems = left.header.problems};
  for (size_t i = 0; i < left.records.size(); ++i) {
    const Record &x = left.records[i], &y = right.records[i];
    out.right_a += x.right ? 1 : 0;
    out.right_b += y.right ? 1 : 0;
    if (x.right && !y.right) out.only_a.push_back(x.id);
    if (!x.right && y.right) out.only_b.push_back(x.id);
    if (x.tokens != y.tokens) out.other_tokens.push_back(x.id);
  }
  out.p = mcnemar_p(static_cast<int64_t>(out.only_a.size()), static_cast<int64_t>(out.only_b.size()));
  const auto note = [&](const char* what, const std::string& x, const std::string& y) {
    if (x != y) out.made_otherwise.push_back(std::string(what) + ": " + x + ", " + y);
  };
  const Header &h = left.header, &g = right.header;
  note("version", h.version, g.version);
  if (h.build != g.build) out.made_otherwise.push_back("program");
  if (h.config != g.config || h.weights != g.weights) out.made_otherwise.push_back("model");
  note("kernels", h.device, g.device);
  note("precision", h.precision, g.precision);
  note("mla", h.mla_form, g.mla_form);
  note("max_tokens", std::to_string(h.max_tokens), std::to_string(g.max_tokens));
  return out;
}

}  // namespace nibble::eval
