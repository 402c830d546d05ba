// A small finished evaluation, made without a model.
#pragma once

#include <string>
#include <vector>

#include "eval/record.h"

namespace nibble::eval {

inline std::vector<Problem> sample_problems() {
  return {{.id = "0", .question = "a?", .answer = "12", .prompt = {1, 2}},
          {.id = "1", .question = "b?", .answer = "56", .prompt = {3}},
          {.id = R"("c")", .question = "c?", .answer = "7", .prompt = {4, 5, 6}},
          {.id = "9", .question = "d?", .answer = "0", .prompt = {7}}};
}

inline Header sample_header(const std::vector<Problem>& problems) {
  return {.version = "1.2.3",
          .build = "b",
          .config = "c",
          .weights = "w",
          .device = "cpu portable",
          .precision = "bf16",
          .mla_form = "absorbed",
          .max_tokens = 8,
          .context = 20,
          .problems = static_cast<int64_t>(problems.size()),
          .hashes = hash(problems)};
}

// Right, right, wrong, cut off.
inline std::vector<Record> sample_records(const std::vector<Problem>& problems) {
  return {make_record(problems[0], {10, 11}, "It is 12. #### 12", "stop"),
          make_record(problems[1], {12}, "#### 56", "stop"),
          make_record(problems[2], {13, 14, 15}, "\xC3\xA9 \"#### 8\"", "stop"),
          make_record(problems[3], {1, 2, 3, 4, 5, 6, 7, 8}, "on and on", "length")};
}

// The whole file.
inline std::string sample_file(const Header& header, const std::vector<Record>& records) {
  std::string out = to_line(header) + "\n";
  for (const Record& r : records) out += to_line(r) + "\n";
  return out;
}

}  // namespace nibble::eval
