// Lines of standard input, with Ctrl-C seen while one is awaited.
#pragma once

#include <string>

namespace nibble::cli {

class LineReader {
 public:
  enum class Status { kLine, kEnd, kInterrupt };
  // A line without its break; the last one need not have any. What was typed before an interrupt is dropped, as the
  // terminal does.
  Status read(std::string& line);

 private:
  std::string buffer_;
  bool ended_ = false;
};

}  // namespace nibble::cli
