#include "cli/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

namespace nibble::cli {
namespace {

// The kernel may run the handler on any thread and at any moment, also between a check and the wait that follows it; a
// byte in a pipe is there for both.
int notes[2] = {-1, -1};
struct sigaction before_us;

extern "C" void on_interrupt(int) {
  const int error = errno;
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = ::write(notes[1], &byte, 1);  // full: it has been noted
  errno = error;
}

constexpr auto kPatience = std::chrono::milliseconds(300);
constexpr int kBarWidth = 30;

}  // namespace

bool is_terminal(std::FILE* stream) { return ::isatty(::fileno(stream)) == 1; }

bool has_color(std::FILE* stream) {
  const char* no_color = std::getenv("NO_COLOR");
  return is_terminal(stream) && (no_color == nullptr || *no_color == '\0');
}

void ProgressBar::update(std::string_view phase, int done, int total) {
  if (!shown_ || total <= 0 || std::chrono::steady_clock::now() - begin_ < kPatience) return;
  const int filled = static_cast<int>(static_cast<int64_t>(kBarWidth) * done / total);
  fmt::print(stderr, "\r\033[K{} [{}{}] {}/{}", phase, std::string(static_cast<size_t>(filled), '#'),
             std::string(static_cast<size_t>(kBarWidth - filled), '.'), done, total);
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::erase() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
  drawn_ = false;
}

InterruptGuard::InterruptGuard() {
  if (::pipe2(notes, O_CLOEXEC | O_NONBLOCK) != 0) throw std::runtime_error("cannot make a pipe");
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, &before_us);
}

InterruptGuard::~InterruptGuard() {
  ::sigaction(SIGINT, &before_us, nullptr);
  for (int& end : notes) ::close(std::exchange(end, -1));
}

bool InterruptGuard::take() {
  char bytes[64];
  bool any = false;
  while (::read(notes[0], bytes, sizeof(bytes)) > 0) any = true;
  return any;
}

int InterruptGuard::descriptor() const { return notes[0]; }

}  // namespace nibble::cli
