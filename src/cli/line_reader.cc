#include "cli/line_reader.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace nibble::cli {

LineReader::Status LineReader::read(std::string& line) {
  while (true) {
    const size_t at = buffer_.find('\n');
    if (at != buffer_.npos || (ended_ && !buffer_.empty())) {
      line = buffer_.substr(0, at);
      buffer_.erase(0, at == buffer_.npos ? at : at + 1);
      if (line.ends_with('\r')) line.pop_back();
      return Status::kLine;
    }
    if (ended_) return Status::kEnd;
    char bytes[4096];
    const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof(bytes));
    if (got > 0) buffer_.append(bytes, static_cast<size_t>(got));
    if (got == 0) ended_ = true;
    if (got < 0 && errno == EINTR) return Status::kInterrupt;
    if (got < 0) throw std::runtime_error(std::string("cannot read standard input: ") + std::strerror(errno));
  }
}

}  // namespace nibble::cli
