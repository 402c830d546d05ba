// Problems with one right answer each, from a file of JSON lines.
//
//   {"id": 7, "answer": "42", "prompt_tokens": [...]}      a prompt as ids, or
//   {"id": "a-7", "answer": "42", "question": "..."}       a question, asked as the one message of a chat
//
// `answer` may hold its working, as GSM8K's does: what follows "#### " counts. Other keys are left alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat.h"
#include "text/tokenizer.h"

namespace nibble::eval {

struct Problem {
  std::string id;  // as JSON: 7, or "a-7" with its quotes
  std::string question;
  std::string answer;  // normalised (answer.h)
  std::vector<int32_t> prompt;
};

// `source` names the file in refusals. `limit`: only the first so many; 0: all. Throws Refusal for lines that are no
// such object, ids that come twice, and a file without problems.
std::vector<Problem> parse_problems(std::string_view text, std::string_view source, int64_t limit);

// Gives problems that have none their prompt; refuses ids that the vocabulary does not have.
void tokenize(std::vector<Problem>& problems, const text::Tokenizer& tokenizer, const text::RenderOptions& render);

// SHA-256 of what makes two sets of problems the same, each over the problems in order.
struct ProblemHashes {
  std::string ids, prompts, answers;
  bool operator==(const ProblemHashes&) const = default;
};
ProblemHashes hash(std::span<const Problem> problems);

}  // namespace nibble::eval
