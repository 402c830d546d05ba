// What the server adds to the engine's own time: from the moment that a step's tokens are there to the moment that each
// client has its event. The engine is a metronome here: every step gives each of N streams one token at once, which is
// the worst that an engine can do to a server. Prints a row for 1, 8, 32, 64 and 256 streams.
// usage: server_latency [THREADS [READERS [STEPS [MILLISECONDS]]]]   threads of the server (1), of the client (1),
// steps of each row (150), and how far apart they are (20)
#include <arpa/inet.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/server.h"
#include "text/tokenizer.h"

namespace {

using namespace nibble;
using Clock = std::chrono::steady_clock;
using Sorted = std::vector<double>;

class Metronome final : public serve::Generator {
 public:
  Engine::Id submit(Request, Engine::Callback callback) override {
    const std::lock_guard lock(mutex_);
    callbacks_.push_back(std::move(callback));
    return callbacks_.size();
  }
  void cancel(Engine::Id) override {}
  EngineStats stats() const override { return {}; }
  size_t size() {
    const std::lock_guard lock(mutex_);
    return callbacks_.size();
  }
  void step(const Output& output) {
    for (size_t i = 0; i < callbacks_.size(); ++i) callbacks_[i](i + 1, output);
  }

 private:
  std::mutex mutex_;
  std::vector<Engine::Callback> callbacks_;
};

int connect_to(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) std::abort();
  return fd;
}

double at(const Sorted& sorted, double share) {
  return sorted.empty() ? 0.0 : sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

double seconds_of(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// A part of the streams, read as they come.
class Reader {
 public:
  void add(int fd) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    if (::epoll_ctl(poll_, EPOLL_CTL_ADD, fd, &event) != 0) std::abort();
  }
  void start(const std::atomic<Clock::time_point>& given) {
    thread_ = std::thread([this, &given] { read(given); });
  }
  // What it computed, in seconds.
  double stop() {
    clockid_t clock{};
    ::pthread_getcpuclockid(thread_.native_handle(), &clock);
    const double computed = seconds_of(clock);
    ended_ = true;
    thread_.join();
    ::close(poll_);
    return computed;
  }
  const std::vector<double>& milliseconds() const { return milliseconds_; }

 private:
  void read(const std::atomic<Clock::time_point>& given) {
    std::vector<epoll_event> events(256);
    char bytes[1 << 16];
    while (!ended_) {
      const int ready = ::epoll_wait(poll_, events.data(), 256, 50);
      for (int i = 0; i < ready; ++i) {
        const auto got = ::recv(events[static_cast<size_t>(i)].data.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (got <= 0) continue;
        milliseconds_.push_back(std::chrono::duration<double, std::milli>(Clock::now() - given.load()).count());
      }
    }
  }

  int poll_ = ::epoll_create1(0);
  std::atomic<bool> ended_ = false;
  std::vector<double> milliseconds_;
  std::thread thread_;
};

struct Setting {
  int threads, readers, steps;
  std::chrono::milliseconds pause;
};

void measure(int streams, const Setting& s, const text::Tokenizer& tokenizer) {
  Metronome metronome;
  serve::ServerOptions options;
  options.http.port = 0;
  options.http.threads = s.threads;
  options.service.model_names = {"k3-tiny"};
  options.service.max_sequences = streams;
  serve::Server server(options, {});
  server.open(metronome, tokenizer, 4096);
  std::thread serving([&] { server.run(); });

  const std::string body = R"({"messages":[{"role":"user","content":"hi"}],"stream":true})";
  const std::string request =
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body;
  std::vector<Reader> readers(static_cast<size_t>(s.readers));
  std::vector<int> sockets;
  char role[1 << 12];
  for (int i = 0; i < streams; ++i) {
    const int fd = sockets.emplace_back(connect_to(server.port()));
    if (::send(fd, request.data(), request.size(), 0) < 0) std::abort();
    for (std::string seen; seen.find("\n\n\r\n") == seen.npos;) {  // the head, and the role as a chunk
      const auto got = ::recv(fd, role, sizeof(role), 0);
      if (got <= 0) std::abort();
      seen.append(role, static_cast<size_t>(got));
    }
    readers[static_cast<size_t>(i % s.readers)].add(fd);
  }
  while (metronome.size() < static_cast<size_t>(streams)) std::this_thread::yield();

  std::atomic<Clock::time_point> given{Clock::time_point{}};
  const auto others = [] { return seconds_of(CLOCK_PROCESS_CPUTIME_ID) - seconds_of(CLOCK_THREAD_CPUTIME_ID); };
  const double before = others();
  for (Reader& reader : readers) reader.start(given);
  Sorted latencies, held;
  const Output output{.tokens = {tokenizer.encode("words").front()}};
  for (int i = 0; i < s.steps; ++i) {
    const auto begin = Clock::now();
    given = begin;
    metronome.step(output);
    held.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    std::this_thread::sleep_until(begin + s.pause);
  }
  double computed = others() - before;  // by the server's threads
  for (Reader& reader : readers) computed -= reader.stop();
  for (const int fd : sockets) ::close(fd);
  server.stop();
  server.stop();
  serving.join();

  for (const Reader& reader : readers) {
    latencies.insert(latencies.end(), reader.milliseconds().begin(), reader.milliseconds().end());
  }
  std::sort(latencies.begin(), latencies.end());
  std::sort(held.begin(), held.end());
  fmt::print("{:7} {:8} {:9.3f} {:8.3f} {:8.3f} {:14.1f} {:12.3f} {:8.3f}\n", streams, latencies.size(),
             at(latencies, 0.5), at(latencies, 0.99), at(latencies, 1.0),
             1e6 * computed / (streams * static_cast<double>(s.steps)), at(held, 0.5), at(held, 0.99));
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int place, int otherwise) { return argc > place ? std::atoi(argv[place]) : otherwise; };
  const Setting s{.threads = number(1, 1),
                  .readers = number(2, 1),
                  .steps = number(3, 150),
                  .pause = std::chrono::milliseconds(number(4, 20))};
  const text::Tokenizer tokenizer = text::Tokenizer::load(NIBBLE_SOURCE_DIR "/models/k3-tiny", 2048);
  fmt::print("{} threads of the server, {} of the client; {} steps of {} ms\n", s.threads, s.readers, s.steps,
             s.pause.count());
  fmt::print("        events  from a step's tokens to a client's event   CPU us of the   engine held up\n");
  fmt::print("streams          p50 ms   p99 ms  most ms  server an event      p50 ms   p99 ms\n");
  for (const int streams : {1, 8, 32, 64, 256}) measure(streams, s, tokenizer);
  return 0;
}
