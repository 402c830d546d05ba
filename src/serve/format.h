// How an answer looks on the wire: one class an API. It writes; what there is to write is decided in generation.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nibble/engine.h"
#include "serve/errors.h"
#include "text/chat_parser.h"
#include "text/tokenizer.h"

namespace nibble::serve {

struct Usage {
  int64_t prompt = 0, completion = 0;
  int64_t cached = 0;     // of prompt
  int64_t reasoning = 0;  // of completion
};

// One choice of a request, complete.
struct Choice {
  text::ChatAnswer answer;  // of a completion: content alone
  std::vector<TokenLogprob> logprobs;
  std::vector<int32_t> tokens;
  std::string finish_reason;  // "stop", "length" or "tool_calls"
  std::string stop_string;    // that ended it
};

class Format {
 public:
  virtual ~Format() = default;

  // A stream: server-sent events, appended to `out`.
  virtual void begin(std::string& out) = 0;
  // `logprobs` are of tokens that `event`, or nothing visible before it, came from.
  virtual void event(int32_t choice, const text::ChatEvent& event, std::span<const TokenLogprob> logprobs,
                     const Usage& so_far, std::string& out) = 0;
  // `rest`: logprobs of tokens that no event came from.
  virtual void finish(int32_t choice, const Choice& whole, std::span<const TokenLogprob> rest, const Usage& so_far,
                      std::string& out) = 0;
  virtual void end(const Usage& usage, std::string& out) = 0;
  virtual void error(const ApiError& error, std::string& out) = 0;

  // Not a stream: the body.
  virtual std::string whole(std::span<const Choice> choices, const Usage& usage) = 0;
};

// What OpenAI's chat and completions share: chunks that repeat a head, usage in a last one, "[DONE]".
class ChunkFormat : public Format {
 public:
  void end(const Usage& usage, std::string& out) override;
  void error(const ApiError& error, std::string& out) override;

 protected:
  explicit ChunkFormat(bool include_usage) : include_usage_(include_usage) {}
  std::string head_;  // of each chunk, up to its choices; set by who derives

 private:
  bool include_usage_;
};

// "prefix" and 24 random letters and digits.
std::string new_id(std::string_view prefix);
int64_t unix_time();

// With replacement characters for what is not UTF-8.
std::string token_text(const text::Tokenizer& tokenizer, int32_t id);
std::string lossy_text(const text::Tokenizer& tokenizer, std::span<const int32_t> ids);
// {"prompt_tokens": ...}; what was found in the cache stands there twice, as OpenAI and as Moonshot have it.
std::string usage_json(const Usage& usage);

}  // namespace nibble::serve
