#include "eval/problems.h"

#include <nlohmann/json.hpp>

#include <limits>
#include <set>

#include "base/error.h"
#include "eval/answer.h"
#include "eval/sha256.h"

namespace nibble::eval {
namespace {

using nlohmann::json;

class Line {
 public:
  Line(std::string_view text, std::string_view source, int64_t number)
      : where_(std::string(source) + ", line " + std::to_string(number)),
        value_(json::parse(text, nullptr, /*allow_exceptions=*/false)) {
    if (!value_.is_object()) refuse("not a JSON object", "each line is one problem");
  }

  Problem problem() const {
    Problem out{.id = id(), .answer = expected_answer(string_of("answer"))};
    if (out.answer.empty()) refuse("an answer without content", "a problem has one right answer");
    const auto tokens = value_.find("prompt_tokens");
    if (tokens != value_.end()) {
      out.prompt = ids_of(*tokens);
    } else {
      out.question = string_of("question");
    }
    return out;
  }

  [[noreturn]] void refuse(const std::string& seen, const std::string& rule) const {
    throw Refusal(
        {.what = where_,
         .seen = seen,
         .rule = rule,
         .fix = R"({"id": 1, "question": "...", "answer": "42"} on a line, or "prompt_tokens" for the question)"});
  }

 private:
  std::string id() const {
    const auto it = value_.find("id");
    if (it == value_.end() || !(it->is_number_integer() || it->is_string())) {
      refuse("no \"id\" that is a whole number or a string", "records find their problem by its id");
    }
    return it->dump(-1, ' ', /*ensure_ascii=*/true);
  }

  std::string string_of(const char* key) const {
    const auto it = value_.find(key);
    if (it == value_.end() || !it->is_string()) {
      refuse(std::string("no \"") + key + "\" that is a string", "a problem has a question and an answer");
    }
    return it->get<std::string>();
  }

  std::vector<int32_t> ids_of(const json& list) const {
    std::vector<int32_t> out;
    if (!list.is_array() || list.empty()) refuse("\"prompt_tokens\" is no list of ids", "a prompt has a token");
    for (const json& id : list) {
      if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<int32_t>::max()) {
        refuse("\"prompt_tokens\" holds " + id.dump(), "ids are whole numbers from 0");
      }
      out.push_back(id.get<int32_t>());
    }
    return out;
  }

  std::string where_;
  json value_;
};

}  // namespace

std::vector<Problem> parse_problems(std::string_view text, std::string_view source, int64_t limit) {
  std::vector<Problem> out;
  std::set<std::string> seen;
  int64_t number = 0;
  while (!text.empty() && (limit == 0 || static_cast<int64_t>(out.size()) < limit)) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const Line parsed(line, source, number);
    out.push_back(parsed.problem());
    if (!seen.insert(out.back().id).second) {
      parsed.refuse("id " + out.back().id + " a second time", "each id is there once");
    }
  }
  if (out.empty()) {
    throw Refusal({.what = std::string(source),
                   .seen = "no problems",
                   .rule = "a file with one JSON object on each line",
                   .fix = "check the path"});
  }
  return out;
}

void tokenize(std::vector<Problem>& problems, const text::Tokenizer& tokenizer, const text::RenderOptions& render) {
  for (Problem& p : problems) {
    if (p.prompt.empty()) {
      const text::Message question{.role = text::Role::kUser, .content = {p.question}};
      p.prompt = text::encode(text::render({question}, render).segments, tokenizer);
    }
    for (const int32_t id : p.prompt) {
      if (tokenizer.contains(id)) continue;
      throw Refusal({.what = "problem " + p.id,
                     .seen = "token id " + std::to_string(id) + " in its prompt",
                     .rule = "ids of this model are 0 to " + std::to_string(tokenizer.vocab_size() - 1),
                     .fix = "problems that were tokenised for this model, or their questions as text"});
    }
  }
}

ProblemHashes hash(std::span<const Problem> problems) {
  Sha256 ids, prompts, answers;
  for (const Problem& p : problems) {
    ids.add(p.id + "\n");
    answers.add(p.answer + "\n");
    std::string line;
    for (const int32_t id : p.prompt) line += (line.empty() ? "" : ",") + std::to_string(id);
    prompts.add(line + "\n");
  }
  return {.ids = ids.finish(), .prompts = prompts.finish(), .answers = answers.finish()};
}

}  // namespace nibble::eval
