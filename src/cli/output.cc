#include "cli/output.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace nibble::cli {
namespace {

// stdio keeps that a write failed, but not why.
int first_error = 0;

// The pipe's other end is closed.
bool nobody_reads() {
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

void note_error() {
  if (first_error == 0) first_error = errno != 0 ? errno : nobody_reads() ? EPIPE : EIO;
}

}  // namespace

void print(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) note_error();
}

void flush_output() {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) note_error();
  if (first_error == EPIPE) throw OutputClosed("standard output was closed");
  if (first_error != 0) {
    throw std::runtime_error(std::string("cannot write to standard output: ") + std::strerror(first_error));
  }
}

std::string with_commas(int64_t value) {
  const std::string digits = std::to_string(value);
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && digits[i - 1] != '-' && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

}  // namespace nibble::cli
