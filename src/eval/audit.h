// Recomputes the score of a finished evaluation from its records, and says everything that is not as it must be.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eval/fingerprint.h"
#include "eval/problems.h"
#include "eval/record.h"
#include "text/tokenizer.h"

namespace nibble::eval {

struct Audit {
  int64_t right = 0, problems = 0;  // recomputed; problems as the header counts them
  std::vector<std::string> doubts;  // empty: the score stands
};

// What only the model's directory can tell; without it those checks are left out.
struct AuditModel {
  const text::Tokenizer* tokenizer = nullptr;
  ModelFingerprint fingerprint;
  std::vector<int32_t> stop_ids;
};

// `records` is the whole file. `problems` are all of the problems' file, with their prompts; a header that counts fewer
// is of the first of them.
Audit audit(std::string_view records, std::span<const Problem> problems, const AuditModel* model = nullptr);

}  // namespace nibble::eval
