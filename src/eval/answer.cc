#include "eval/answer.h"

#include "text/chat_parser.h"
#include "text/utf8_stream.h"

namespace nibble::eval {
namespace {

constexpr std::string_view kMark = "#### ";

// What does not make an answer another one: blanks around it, thousands' commas, a dollar sign, a full stop.
std::string normalised(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != ',' && c != '$') out += c;
  }
  constexpr const char* kBlank = " \t\r\n";
  const size_t last = out.find_last_not_of(kBlank);
  out.erase(last == out.npos ? 0 : last + 1);
  if (out.ends_with('.')) out.pop_back();
  const size_t first = out.find_first_not_of(kBlank);
  return first == out.npos ? "" : out.substr(first);
}

}  // namespace

std::string visible_text(std::span<const int32_t> prompt, std::span<const int32_t> tokens,
                         const text::Tokenizer& tokenizer) {
  const text::Channel channel = text::channel_of(prompt, tokenizer);
  if (channel != text::Channel::kNone) return text::parse_answer(tokens, tokenizer, channel).content;
  std::string out;
  text::Utf8Stream characters;
  for (const int32_t id : tokens) {
    if (!tokenizer.is_control(id)) characters.push(tokenizer.bytes(id), out);
  }
  characters.finish(out);
  return out;
}

std::optional<std::string> final_answer(std::string_view text) {
  const size_t mark = text.rfind(kMark);
  if (mark == text.npos) return std::nullopt;
  return normalised(text.substr(mark + kMark.size()));
}

std::string expected_answer(std::string_view text) {
  const auto marked = final_answer(text);
  return marked ? *marked : normalised(text);
}

}  // namespace nibble::eval
