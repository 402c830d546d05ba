#include "cli/terminal.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>

namespace nibble::cli {
namespace {

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // as a signal handler needs
struct sigaction before_us;

extern "C" void on_interrupt(int) { interrupted = true; }

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
  interrupted = false;
  struct sigaction action {};
  action.sa_handler = on_interrupt;  // no SA_RESTART: a read that waits for a line has to return
  ::sigaction(SIGINT, &action, &before_us);
}

InterruptGuard::~InterruptGuard() { ::sigaction(SIGINT, &before_us, nullptr); }

bool InterruptGuard::take() { return interrupted.exchange(false); }

}  // namespace nibble::cli
