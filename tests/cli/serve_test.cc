// `nibble serve` as a program, and `nibble chat --url` talking to it.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/terminal_session.h"
#include "serve/client.h"

namespace nibble::cli {
namespace {

// The program, serving on a port that was free.
class Serving {
 public:
  explicit Serving(const Arguments& more = {}) {
    Arguments arguments = {program_path(), "serve", "-m", model(), "--port", "0", "--no-access-log"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], 1);
      std::vector<char*> words;
      for (std::string& word : arguments) words.push_back(word.data());
      words.push_back(nullptr);
      ::execv(words[0], words.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    char c = 0;
    while (line.find('\n') == line.npos && ::read(ends[0], &c, 1) == 1) line += c;
    ::close(ends[0]);
    const size_t at = line.find("http");
    url = line.substr(at, line.find(' ', at) - at);
  }
  ~Serving() { stop(); }
  void tell(int signal) const { ::kill(pid_, signal); }
  pid_t pid() const { return pid_; }
  // The exit code.
  int stop(int signal = SIGTERM) {
    if (pid_ < 0) return -1;
    ::kill(std::exchange(pid_, -1), signal);
    int status = 0;
    ::wait(&status);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  std::string line, url;

 private:
  pid_t pid_ = -1;
};

Arguments chat(const Serving& server, const Arguments& more = {}) {
  Arguments arguments = {"chat", "--url", server.url, "--temp", "0"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(Serve, SaysWhereAndEndsBySignal) {
  for (const int signal : {SIGTERM, SIGINT}) {
    Serving server;
    EXPECT_TRUE(server.line.starts_with("serving k3-tiny on http://127.0.0.1:")) << server.line;
    EXPECT_EQ(server.stop(signal), 0);
  }
}

// Threads of a process, or its first alone, whose pages are put on NUMA nodes in turn.
int interleaved(pid_t pid, bool first_only) {
  int out = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    if (first_only && task.path().filename() != std::to_string(pid)) continue;
    std::ifstream maps(task.path() / "numa_maps");
    std::string address, policy;
    maps >> address >> policy;
    out += policy.starts_with("interleave");
  }
  return out;
}

// On a machine that hwloc makes up; of its eight nodes the system takes those that there are.
TEST(Serve, TheEnginesThreadsInterleaveMemoryAndNoOthers) {
  const bool grants = ::syscall(SYS_set_mempolicy, 0, nullptr, 0) == 0 && std::ifstream("/proc/self/numa_maps").good();
  ::setenv("HWLOC_SYNTHETIC", "numa:8 core:1 pu:1(indexes=1000,1001,1002,1003,1004,1005,1006,1007)", 1);
  ::setenv("HWLOC_THISSYSTEM", "1", 1);
  Serving by_itself({"--device", "cpu", "-t", "6"}), off({"--device", "cpu", "-t", "6", "--numa", "off"});
  ::unsetenv("HWLOC_SYNTHETIC");
  ::unsetenv("HWLOC_THISSYSTEM");
  EXPECT_GE(interleaved(by_itself.pid(), false), grants ? 6 : 0);
  EXPECT_EQ(interleaved(by_itself.pid(), true), 0);  // the server's
  EXPECT_EQ(interleaved(off.pid(), false), 0);
}

// It is tried at the start, and nothing is left in it.
TEST(Serve, TakesADirectoryForSuspendedRequests) {
  const std::filesystem::path directory = ::testing::TempDir() + "/nibble_suspend_dir";
  std::filesystem::create_directories(directory);
  Serving server({"--suspend-dir", directory.string()});
  EXPECT_EQ(run(chat(server), {.input = "hi!\n"}).code, 0);
  EXPECT_EQ(server.stop(), 0);
  EXPECT_TRUE(std::filesystem::is_empty(directory));
  std::filesystem::remove(directory);
}

// Whoever has been let in learns how it ended: an answer with its finish_reason, or an error that says why there is
// none.
TEST(Serve, TermUnderLoadLosesNoAnswer) {
  constexpr int kRequests = 32;  // twice as many as take part in steps at once
  Serving server({"--http-threads", "3"});
  const auto port = static_cast<uint16_t>(std::stoi(server.url.substr(server.url.rfind(':') + 1)));
  std::vector<serve::Client> clients;
  for (int i = 0; i < kRequests; ++i) {
    clients.emplace_back(port);
    clients.back().post("/v1/chat/completions", serve::TestJson{{"messages", {{{"role", "user"}, {"content", "hi!"}}}},
                                                                {"max_tokens", 60},
                                                                {"ignore_eos", true},
                                                                {"stream", i % 2 == 0}}
                                                    .dump());
  }
  for (int i = 0; i < kRequests; i += 2) ASSERT_EQ(clients[static_cast<size_t>(i)].head().status, 200);
  server.tell(SIGTERM);
  for (int i = 0; i < kRequests; ++i) {
    serve::Client& client = clients[static_cast<size_t>(i)];
    if (i % 2 == 0) {  // all of these were let in
      const serve::Gathered got = serve::gather(client);
      EXPECT_TRUE(got.done) << i;
      EXPECT_EQ(got.finish_reason, "length") << i << got.error;
      EXPECT_EQ(got.error, "") << i;
      continue;
    }
    const serve::Answer answer = client.answer();
    if (answer.status == 200) {
      EXPECT_EQ(answer.json()["choices"][0]["finish_reason"], "length") << i;
    } else {
      EXPECT_EQ(answer.status, 503) << i;
      EXPECT_EQ(answer.json()["error"]["code"], "draining") << i;
    }
  }
  EXPECT_EQ(server.stop(), 0);
}

TEST(Serve, Refusals) {
  const auto refused = [](const Arguments& more, const std::string& part) {
    Arguments arguments = {"serve", "-m", model()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ended r = run(arguments);
    EXPECT_EQ(r.code, 2) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  };
  refused({"--host", "192.0.2.1"}, "--host 192.0.2.1");
  refused({"--suspend-dir", "/no/such"}, "--suspend-dir /no/such");
  refused({"--suspend-dir", "/dev/null"}, "Not a directory");
  refused({"--max-num-seqs", "0"}, "from 1 to 4096");
  refused({"--http-threads", "0"}, "from 1 to 64");
  refused({"--http-threads", "two"}, "--http-threads");
  refused({"--tls-cert", "x.pem"}, "one without the other");
  refused({"--api-key-file", "/dev/null"}, "no key");
  refused({"--port", "70000"}, "--port");
  refused({"--request-timeout", "soon"}, "--request-timeout");
  EXPECT_EQ(run({"serve", "-m", "/nowhere"}).code, 2);
  Serving server;
  refused({"--port", server.url.substr(server.url.rfind(':') + 1)}, "Address already in use");
}

TEST(ChatUrl, IsTheSameConversation) {
  Serving server;
  const std::string input = "hi!\nhi!\n";
  const Ended there = run(chat(server), {.input = input}),
              here = run({"chat", "-m", model(), "--temp", "0"}, {.input = input});
  EXPECT_EQ(there.code, 0) << there.err;
  EXPECT_EQ(there.err, "");
  EXPECT_EQ(there.out, here.out);
  const Ended named = run(chat(server, {"-m", "other"}), {.input = "hi!\n"});
  EXPECT_EQ(named.code, 1);
  EXPECT_NE(named.err.find("does not exist"), std::string::npos) << named.err;
  EXPECT_EQ(run(chat(server), {.input = "hi!\n", .environment = {"NIBBLE_MODEL=" + model()}}).code, 0);
  const Ended bytes = run(chat(server), {.input = "\xFF\nhi!\n"});
  EXPECT_EQ(bytes.code, 1);
  EXPECT_NE(bytes.err.find("UTF-8"), std::string::npos) << bytes.err;
  EXPECT_NE(bytes.out.find("Hello!"), std::string::npos);
}

TEST(ChatUrl, KeysAndServersThatAreNotThere) {
  Serving server({"--api-key", "secret"});
  EXPECT_NE(run(chat(server), {.input = "hi!\n"}).err.find("API key"), std::string::npos);
  EXPECT_EQ(run(chat(server, {"--api-key", "secret"}), {.input = "hi!\n"}).code, 0);
  EXPECT_EQ(run(chat(server), {.input = "hi!\n", .environment = {"NIBBLE_API_KEY=secret"}}).code, 0);
  server.stop();
  const Ended gone = run(chat(server), {.input = "hi!\n"});
  EXPECT_EQ(gone.code, 1);
  EXPECT_NE(gone.err.find(server.url), std::string::npos) << gone.err;
  const Ended odd = run({"chat", "--url", "ftp://x"}, {.input = "hi!\n"});
  EXPECT_EQ(odd.code, 2);
  EXPECT_NE(odd.err.find("--url ftp://x"), std::string::npos) << odd.err;
}

TEST(ChatUrl, CtrlCStopsAnAnswerAtOnce) {
  Serving server;
  Arguments endless = chat(server);
  for (int id = 1792; id < 1795; ++id) {
    endless.insert(endless.end(), {"--logit-bias", std::to_string(id) + ":-100"});
  }
  TerminalSession terminal(endless);
  ASSERT_TRUE(terminal.wait_for("> "));
  terminal.type("hi!\n");
  ASSERT_TRUE(terminal.wait_for("The user"));
  terminal.type("\x03");
  EXPECT_TRUE(terminal.wait_for("stopped"));
  ASSERT_TRUE(terminal.wait_for("> "));
  terminal.type("/exit\n");
  EXPECT_EQ(terminal.exit_code(), 0);
}

}  // namespace
}  // namespace nibble::cli
