#include "cli/program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>
#include <string_view>

namespace nibble::cli {
namespace {

struct Pipe {
  Pipe() {
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  }
  ~Pipe() { close_read(), close_write(); }
  void close_read() { close_end(0); }
  void close_write() { close_end(1); }
  void close_end(int i) {
    if (ends[i] >= 0) ::close(ends[i]);
    ends[i] = -1;
  }
  int ends[2];
};

std::vector<char*> pointers(Arguments& strings) {
  std::vector<char*> out;
  for (std::string& s : strings) out.push_back(s.data());
  out.push_back(nullptr);
  return out;
}

// What is there now; false at the end.
bool read_some(int fd, std::string& to) {
  char bytes[1 << 16];
  const ssize_t got = ::read(fd, bytes, sizeof(bytes));
  if (got <= 0) return false;
  to.append(bytes, static_cast<size_t>(got));
  return true;
}

}  // namespace

Ended run_program(const std::string& program, const Arguments& arguments, const RunOptions& options) {
  ::signal(SIGPIPE, SIG_IGN);  // a program that does not read its input is its own affair
  Pipe in, out, err;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in.ends[0], 0);
  if (options.output.empty()) {
    ::posix_spawn_file_actions_adddup2(&actions, out.ends[1], 1);
  } else {
    ::posix_spawn_file_actions_addopen(&actions, 1, options.output.c_str(), O_WRONLY, 0);
  }
  ::posix_spawn_file_actions_adddup2(&actions, err.ends[1], 2);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t defaults;
  ::sigemptyset(&defaults);
  ::sigaddset(&defaults, SIGPIPE);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);

  Arguments words = {program}, environment = options.environment;
  words.insert(words.end(), arguments.begin(), arguments.end());
  for (char** at = environ; *at != nullptr; ++at) {
    // What a developer has set for a program of one's own is not what is tested.
    if (!std::string_view(*at).starts_with("NIBBLE_")) environment.emplace_back(*at);
  }
  pid_t pid = 0;
  const int failed =
      ::posix_spawn(&pid, program.c_str(), &actions, &attributes, pointers(words).data(), pointers(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (failed != 0) throw std::runtime_error("cannot start " + program);

  in.close_read(), out.close_write(), err.close_write();
  if (!options.input.empty() && ::write(in.ends[1], options.input.data(), options.input.size()) < 0) {
    throw std::runtime_error("cannot write its input");
  }
  in.close_write();
  Ended result;
  pollfd streams[] = {{out.ends[0], POLLIN, 0}, {err.ends[0], POLLIN, 0}};
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    if (::poll(streams, 2, -1) < 0) break;
    if (streams[0].revents != 0) {
      const bool more = read_some(streams[0].fd, result.out);
      if (more) result.reads.push_back(result.out.size());
      if (!more || options.close_early) {
        out.close_read();
        streams[0].fd = -1;
      }
    }
    if (streams[1].revents != 0 && !read_some(streams[1].fd, result.err)) streams[1].fd = -1;
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

Ended run(const Arguments& arguments, const RunOptions& options) {
  return run_program(program_path(), arguments, options);
}

std::string program_path() { return NIBBLE_PROGRAM; }

std::string model(const std::string& name) { return std::string(NIBBLE_SOURCE_DIR) + "/models/" + name; }

std::string joined(const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += (text.empty() ? "" : ",") + std::to_string(id);
  return text;
}

}  // namespace nibble::cli
