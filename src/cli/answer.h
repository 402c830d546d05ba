// A whole answer, as commands print it.
#pragma once

#include <string>
#include <vector>

#include "nibble/engine.h"
#include "text/chat_reader.h"

namespace nibble::cli {

struct Answer {
  std::vector<int32_t> tokens;  // all of them, the stop token included
  std::string text;             // of a completion: what was generated; of a chat: the response
  std::string reasoning;        // of a chat
  std::vector<text::ChatAnswer::Call> calls;
  std::string finish_reason;  // "stop", "length", "tool_calls", or "cancelled"
};

// Of a chat whose reader has seen all tokens.
Answer chat_answer(const text::ChatReader& reader, std::vector<int32_t> tokens, FinishReason finish);

}  // namespace nibble::cli
