// Answers problems through an engine, many at once, and appends their records in the problems' order.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "eval/record_file.h"
#include "nibble/engine.h"
#include "text/tokenizer.h"

namespace nibble::eval {

struct EvaluateOptions {
  int64_t max_tokens = 512;  // of an answer
  int64_t batch = 1;         // what the engine runs at once; twice as many are handed to it, so that none of it idles
  std::function<void(int64_t done, int64_t total)> progress;  // after each answer
  std::function<bool()> stop;                                 // asked from time to time: true ends it early
};

struct Evaluated {
  bool finished = false;                  // false: stopped
  int64_t prompt_tokens = 0, tokens = 0;  // of what was answered in this call
};

// Problems from out.done() on. Greedy, so what is recorded does not depend on the batch. Throws std::runtime_error
// where the engine fails; what was appended stays.
Evaluated evaluate(Engine& engine, const text::Tokenizer& tokenizer, std::span<const Problem> problems, RecordFile& out,
                   const EvaluateOptions& options);

}  // namespace nibble::eval
