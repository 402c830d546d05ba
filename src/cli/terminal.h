// The terminal: what is one, colours, a progress bar, and Ctrl-C as a flag.
#pragma once

#include <chrono>
#include <cstdio>
#include <string_view>

namespace nibble::cli {

bool is_terminal(std::FILE* stream);
// Escape sequences are used on a terminal unless NO_COLOR is set and not empty (no-color.org).
bool has_color(std::FILE* stream);

// "\033[2m" and "\033[0m", or nothing where colours are off.
struct Style {
  explicit Style(std::FILE* stream) : on(has_color(stream)) {}
  std::string_view dim() const { return on ? "\033[2m" : ""; }
  std::string_view bold() const { return on ? "\033[1m" : ""; }
  std::string_view reset() const { return on ? "\033[0m" : ""; }
  bool on;
};

// One line on stderr that is rewritten in place and erased at the end. Nothing is shown where stderr is no terminal, or
// before the work has lasted long enough for anyone to wonder.
class ProgressBar {
 public:
  ProgressBar() : shown_(is_terminal(stderr)), begin_(std::chrono::steady_clock::now()) {}
  ~ProgressBar() { erase(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  void update(std::string_view phase, int done, int total);
  void erase();

 private:
  bool shown_, drawn_ = false;
  std::chrono::steady_clock::time_point begin_;
};

// Ctrl-C while one of these lives is noted instead of ending the process. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  // True once for each Ctrl-C, or for several that came together.
  bool take();
  // Readable while there is one to take: for whoever waits for something else as well.
  int descriptor() const;
};

}  // namespace nibble::cli
