// An answer as it comes, its stop strings minded: token ids in, what may be shown out.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "text/chat_parser.h"
#include "text/stop_strings.h"

namespace nibble::text {

// Reads a chat's answer: channels and calls by ids, stop strings on the response alone, so that a stop string in the
// reasoning does not end an answer before it begins.
class ChatReader {
 public:
  ChatReader(const Tokenizer& tokenizer, Channel channel, const std::vector<std::string>& stops);

  // What is new. `stopped()` from then on where a stop string was found.
  const std::vector<ChatEvent>& push(std::span<const int32_t> ids);
  // What was held back, at the end.
  const std::vector<ChatEvent>& finish();
  bool stopped() const { return stops_.matched().has_value(); }
  const std::optional<std::string>& stop_string() const { return stops_.matched(); }
  const ChatParser& parser() const { return parser_; }
  // All that was shown. A call that lacks nothing but its brace is whole all the same.
  ChatAnswer answer() const;

 private:
  void take(bool end);

  ChatParser parser_;
  StopStrings stops_;
  std::vector<ChatEvent> raw_, events_;
  ChatAnswer gathered_;
};

}  // namespace nibble::text
