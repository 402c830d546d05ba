// An answer as it comes: outputs of the engine in, text to show out.
#pragma once

#include <string>
#include <vector>

#include "nibble/engine.h"
#include "text/chat_parser.h"
#include "text/stop_strings.h"

namespace nibble::cli {

struct Answer {
  std::vector<int32_t> tokens;  // all of them, the stop token included
  std::string text;             // of a completion: what was generated; of a chat: the response
  std::string reasoning;        // of a chat
  std::vector<text::ChatAnswer::Call> calls;
  std::string finish_reason;  // "stop", "length", "tool_calls", or "cancelled"
};

// Reads a chat's answer: channels and calls by ids, stop strings on the response alone, so that a stop string in the
// reasoning does not end an answer before it begins.
class ChatReader {
 public:
  ChatReader(const text::Tokenizer& tokenizer, text::Channel channel, const std::vector<std::string>& stops);

  // What is new. `stopped()` from then on where a stop string was found.
  const std::vector<text::ChatEvent>& push(const Output& output);
  // What was held back, at the end.
  const std::vector<text::ChatEvent>& finish();
  bool stopped() const { return stops_.matched().has_value(); }
  Answer answer(FinishReason finish) const;

 private:
  void take(bool end);

  text::ChatParser parser_;
  text::StopStrings stops_;
  std::vector<text::ChatEvent> raw_, events_;
  std::vector<int32_t> tokens_;
  text::ChatAnswer gathered_;
};

}  // namespace nibble::cli
