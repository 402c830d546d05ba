// Lines of standard input, with Ctrl-C seen while one is awaited.
#pragma once

#include <string>

#include "cli/terminal.h"

namespace nibble::cli {

class LineReader {
 public:
  enum class Status { kLine, kEnd, kInterrupt };
  // A line without its break; the last one need not have any. kInterrupt where there is something to take from the
  // guard; what was typed before it is dropped, as the terminal does.
  Status read(std::string& line, const InterruptGuard& guard);

 private:
  std::string buffer_;
  bool ended_ = false;
};

}  // namespace nibble::cli
