// nibble on a pseudo-terminal: what a person sees, and what a person types.
#pragma once

#include <sys/types.h>

#include <string>

#include "cli/program.h"

namespace nibble::cli {

class TerminalSession {
 public:
  explicit TerminalSession(const Arguments& arguments, const Arguments& environment = {});
  ~TerminalSession();
  TerminalSession(const TerminalSession&) = delete;
  TerminalSession& operator=(const TerminalSession&) = delete;

  void type(const std::string& keys);  // "\x03" is Ctrl-C, "\x04" Ctrl-D
  // Reads on until `text` was shown since the last wait. False where the program ended, or a minute passed, before it.
  bool wait_for(const std::string& text);
  int exit_code();  // reads to the end

  const std::string& screen() const { return screen_; }  // all that was shown

 private:
  bool read_some();

  int fd_ = -1;
  pid_t pid_ = -1;
  std::string screen_;
  size_t seen_ = 0;
};

}  // namespace nibble::cli
