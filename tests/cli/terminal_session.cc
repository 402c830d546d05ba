#include "cli/terminal_session.h"

#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace nibble::cli {

TerminalSession::TerminalSession(const Arguments& arguments, const Arguments& environment) {
  Arguments words = {program_path()}, variables = environment;
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = ::forkpty(&fd_, nullptr, nullptr, nullptr);
  if (pid_ < 0) throw std::runtime_error("no pseudo-terminal");
  if (pid_ == 0) {
    for (const char* name :
         {"NO_COLOR", "NIBBLE_MODEL", "NIBBLE_DEVICE", "NIBBLE_ISA", "NIBBLE_THREADS", "NIBBLE_NUMA"}) {
      ::unsetenv(name);
    }
    for (std::string& variable : variables) ::putenv(variable.data());
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
}

TerminalSession::~TerminalSession() {
  if (pid_ > 0) ::kill(pid_, SIGKILL), ::waitpid(pid_, nullptr, 0);
  ::close(fd_);
}

void TerminalSession::type(const std::string& keys) {
  if (::write(fd_, keys.data(), keys.size()) != static_cast<ssize_t>(keys.size())) {
    throw std::runtime_error("cannot type");
  }
}

bool TerminalSession::read_some() {
  pollfd stream{fd_, POLLIN, 0};
  if (::poll(&stream, 1, 60'000) <= 0) return false;
  char bytes[4096];
  const ssize_t got = ::read(fd_, bytes, sizeof(bytes));  // EIO at the end
  if (got <= 0) return false;
  screen_.append(bytes, static_cast<size_t>(got));
  return true;
}

bool TerminalSession::wait_for(const std::string& text) {
  while (true) {
    const size_t at = screen_.find(text, seen_);
    if (at != screen_.npos) {
      seen_ = at + text.size();
      return true;
    }
    if (!read_some()) return false;
  }
}

int TerminalSession::exit_code() {
  while (read_some()) {
  }
  int status = 0;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace nibble::cli
