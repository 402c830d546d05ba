#include "cli/line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace nibble::cli {

LineReader::Status LineReader::read(std::string& line, const InterruptGuard& guard) {
  while (true) {
    const size_t at = buffer_.find('\n');
    if (at != buffer_.npos || (ended_ && !buffer_.empty())) {
      line = buffer_.substr(0, at);
      buffer_.erase(0, at == buffer_.npos ? at : at + 1);
      if (line.ends_with('\r')) line.pop_back();
      return Status::kLine;
    }
    if (ended_) return Status::kEnd;
    pollfd streams[] = {{STDIN_FILENO, POLLIN, 0}, {guard.descriptor(), POLLIN, 0}};
    if (::poll(streams, 2, -1) < 0) continue;  // a signal of another kind
    if (streams[1].revents != 0) return Status::kInterrupt;
    char bytes[4096];
    const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof(bytes));
    if (got > 0) buffer_.append(bytes, static_cast<size_t>(got));
    if (got == 0) ended_ = true;
    if (got < 0 && errno != EINTR)
      throw std::runtime_error(std::string("cannot read standard input: ") + std::strerror(errno));
  }
}

}  // namespace nibble::cli
