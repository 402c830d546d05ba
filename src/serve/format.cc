#include "serve/format.h"

#include <fmt/format.h>

#include <ctime>
#include <random>

#include "text/utf8_stream.h"

namespace nibble::serve {

void ChunkFormat::end(const Usage& usage, std::string& out) {
  if (include_usage_) out += fmt::format("data: {}],\"usage\":{}}}\n\n", head_, usage_json(usage));
  out += "data: [DONE]\n\n";
}

void ChunkFormat::error(const ApiError& error, std::string& out) {
  out += "data: " + to_json(error) + "\n\ndata: [DONE]\n\n";
}

std::string new_id(std::string_view prefix) {
  constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  thread_local std::mt19937_64 random{(uint64_t{std::random_device()()} << 32) | std::random_device()()};
  std::string id(prefix);
  for (int i = 0; i < 24; ++i) id += kLetters[random() % kLetters.size()];
  return id;
}

int64_t unix_time() { return static_cast<int64_t>(std::time(nullptr)); }

std::string token_text(const text::Tokenizer& tokenizer, int32_t id) { return lossy_text(tokenizer, {&id, 1}); }

std::string lossy_text(const text::Tokenizer& tokenizer, std::span<const int32_t> ids) {
  std::string out;
  text::Utf8Stream stream;
  stream.push(tokenizer.decode(ids), out);
  stream.finish(out);
  return out;
}

std::string usage_json(const Usage& u) {
  return fmt::format(
      R"({{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},"cached_tokens":{},"prompt_tokens_details":{{"cached_tokens":{}}},"completion_tokens_details":{{"reasoning_tokens":{}}}}})",
      u.prompt, u.completion, u.prompt + u.completion, u.cached, u.cached, u.reasoning);
}

}  // namespace nibble::serve
