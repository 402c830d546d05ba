#include "eval/audit.h"

#include <algorithm>
#include <map>

#include "eval/answer.h"

namespace nibble::eval {
namespace {

class Auditor {
 public:
  Auditor(std::span<const Problem> problems, const AuditModel* model) : problems_(problems), model_(model) {}

  Audit run(std::string_view text) {
    const Lines lines = split_lines(text);
    if (!lines.torn.empty()) doubt("the last line has no end: the run was cut off");
    const auto header = lines.whole.empty() ? std::nullopt : parse_header(lines.whole.front());
    if (!header) {
      doubt("the first line is no header");
      return std::move(out_);
    }
    check_header(*header);
    for (size_t i = 1; i < lines.whole.size(); ++i) take(i, lines.whole[i]);
    for (const Problem& p : problems_) {
      if (!seen_.contains(p.id)) doubt("problem " + p.id + " has no record");
    }
    return std::move(out_);
  }

 private:
  void doubt(std::string text) { out_.doubts.push_back(std::move(text)); }

  void check_header(const Header& h) {
    header_ = h;
    out_.problems = h.problems;
    if (h.problems < 1 || h.problems > static_cast<int64_t>(problems_.size())) {
      doubt("the header counts " + std::to_string(h.problems) + " problems, the file of problems has " +
            std::to_string(problems_.size()));
    } else {
      problems_ = problems_.first(static_cast<size_t>(h.problems));
    }
    const ProblemHashes hashes = hash(problems_);
    if (hashes.ids != h.hashes.ids) doubt("the problems' ids are not those of the run");
    if (hashes.prompts != h.hashes.prompts) doubt("the problems' prompts are not those of the run");
    if (hashes.answers != h.hashes.answers) doubt("the problems' answers are not those of the run");
    if (model_ == nullptr) return;
    if (model_->fingerprint.config != h.config) doubt("config.json is not that of the run");
    if (model_->fingerprint.weights != h.weights) doubt("the weights are not those of the run");
  }

  void take(size_t i, std::string_view line) {
    const std::string where = "line " + std::to_string(i + 1);
    const auto record = parse_record(line);
    if (!record) return doubt(where + " is no record");
    if (++seen_[record->id] > 1) return doubt(where + ": problem " + record->id + " a second time");
    const auto problem =
        std::find_if(problems_.begin(), problems_.end(), [&](const Problem& p) { return p.id == record->id; });
    if (problem == problems_.end()) return doubt(where + ": there is no problem " + record->id);
    if (static_cast<size_t>(problem - problems_.begin()) != i - 1) {
      doubt(where + ": problem " + record->id + " is not in its place");
    }
    // The score counts what the text says, not what the record says of it.
    const bool right = final_answer(record->text) == problem->answer;
    out_.right += right ? 1 : 0;
    if (record->expected != problem->answer) doubt(where + ": expected is not the problem's answer");
    if (record->right != right) doubt(where + ": right is not what its text says");
    const std::string wrong = contradiction(*record);
    if (!wrong.empty()) doubt(where + ": " + wrong);
    check_tokens(*record, *problem, where);
  }

  void check_tokens(const Record& r, const Problem& p, const std::string& where) {
    const auto size = static_cast<int64_t>(r.tokens.size());
    const int64_t most = std::min(header_.max_tokens, header_.context - static_cast<int64_t>(p.prompt.size()));
    if (size > most || (r.finish_reason == "length" && size != most)) {
      doubt(where + ": " + std::to_string(size) + " tokens, where " + std::to_string(most) + " were the most");
    }
    if (model_ == nullptr || r.tokens.empty()) return;
    const auto known = [this](int32_t id) { return model_->tokenizer->contains(id); };
    if (!std::all_of(r.tokens.begin(), r.tokens.end(), known)) return doubt(where + ": ids outside the vocabulary");
    if (visible_text(p.prompt, r.tokens, *model_->tokenizer) != r.text) doubt(where + ": text is not its tokens'");
    const auto& stops = model_->stop_ids;
    const bool stopped = std::find(stops.begin(), stops.end(), r.tokens.back()) != stops.end();
    if (stopped != (r.finish_reason == "stop")) doubt(where + ": finish_reason is not what its last token says");
  }

  std::span<const Problem> problems_;
  const AuditModel* model_;
  Header header_;
  std::map<std::string, int> seen_;
  Audit out_;
};

}  // namespace

Audit audit(std::string_view records, std::span<const Problem> problems, const AuditModel* model) {
  return Auditor(problems, model).run(records);
}

}  // namespace nibble::eval
