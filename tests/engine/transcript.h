// What a caller hears of one choice of a request, end to end.
#pragma once

#include <string>
#include <vector>

#include "nibble/engine.h"

namespace nibble::engine {

struct Transcript {
  std::vector<int32_t> tokens;
  std::vector<TokenLogprob> logprobs, prompt_logprobs;
  std::string text, stop_string, error;
  FinishReason finish = FinishReason::kNone;
  int64_t outputs = 0, cached_tokens = 0;

  void add(const Output& output) {
    tokens.insert(tokens.end(), output.tokens.begin(), output.tokens.end());
    logprobs.insert(logprobs.end(), output.logprobs.begin(), output.logprobs.end());
    prompt_logprobs.insert(prompt_logprobs.end(), output.prompt_logprobs.begin(), output.prompt_logprobs.end());
    text += output.text;
    stop_string = output.stop_string;
    error = output.error;
    finish = output.finish;
    cached_tokens = output.cached_tokens;
    ++outputs;
  }
};

}  // namespace nibble::engine
