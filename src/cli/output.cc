#include "cli/output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace nibble::cli {
namespace {

// stdio keeps that a write failed, but not why.
int first_error = 0;

void note_error() {
  if (first_error == 0) first_error = errno == 0 ? EIO : errno;
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

}  // namespace nibble::cli
