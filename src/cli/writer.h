// A chat's answer on standard output as it comes: reasoning dim on a terminal, then the response, then tool calls.
#pragma once

#include <optional>
#include <vector>

#include "cli/terminal.h"
#include "text/chat_parser.h"

namespace nibble::cli {

class AnswerWriter {
 public:
  AnswerWriter() : style_(stdout) {}
  // Flushes. Throws as flush_output() does.
  void write(const std::vector<text::ChatEvent>& events);
  // Ends the line and the colours.
  void finish();

 private:
  enum class Part { kNone, kReasoning, kContent, kCall };
  void enter(Part part);

  Style style_;
  Part part_ = Part::kNone;
};

}  // namespace nibble::cli
