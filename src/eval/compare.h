// Two evaluations of the same problems, problem by problem.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::eval {

struct Comparison {
  int64_t problems = 0, right_a = 0, right_b = 0;
  std::vector<std::string> only_a, only_b;  // ids of what one alone got right
  std::vector<std::string> other_tokens;    // ids of answers that are not the same tokens
  std::vector<std::string> made_otherwise;  // parts of the headers that differ: "precision: bf16, exact"
  double p = 1.0;                           // mcnemar_p of the two counts
};

// `a` and `b` are whole files, the names are for refusals. Throws Refusal for a file that is not a complete set of
// records which agree with themselves, and for files of different problems.
Comparison compare(std::string_view a, std::string_view name_a, std::string_view b, std::string_view name_b);

}  // namespace nibble::eval
