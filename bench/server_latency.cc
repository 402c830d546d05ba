// What the server adds to the engine's own time: from the moment that a step's tokens are there to the moment that each
// client has its event. The engine is a metronome here: every step gives each of N streams one token at once, which is
// the worst that an engine can do to a server. usage: server_latency [STREAMS [STEPS [MILLISECONDS]]]
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

}  // namespace

int main(int argc, char** argv) {
  const int streams = argc > 1 ? std::atoi(argv[1]) : 256, steps = argc > 2 ? std::atoi(argv[2]) : 200;
  const std::chrono::milliseconds pause(argc > 3 ? std::atoi(argv[3]) : 20);
  const text::Tokenizer tokenizer = text::Tokenizer::load(NIBBLE_SOURCE_DIR "/models/k3-tiny", 2048);
  Metronome metronome;
  serve::ServerOptions options;
  options.http.port = 0;
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
  const int poll = ::epoll_create1(0);
  std::vector<int> sockets;
  for (int i = 0; i < streams; ++i) {
    sockets.push_back(connect_to(server.port()));
    epoll_event event{.events = EPOLLIN, .data = {.fd = sockets.back()}};
    ::epoll_ctl(poll, EPOLL_CTL_ADD, sockets.back(), &event);
    if (::send(sockets.back(), request.data(), request.size(), 0) < 0) std::abort();
  }
  while (metronome.size() < static_cast<size_t>(streams)) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // heads and roles go out

  // What the server's thread has computed, whoever else had the machine meanwhile.
  const auto server_seconds = [&] {
    clockid_t clock{};
    timespec time{};
    ::pthread_getcpuclockid(serving.native_handle(), &clock);
    ::clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double before = server_seconds();
  std::atomic<bool> ended = false;
  std::atomic<Clock::time_point> given{Clock::time_point{}};
  std::vector<double> latencies, steps_ms;
  std::thread reading([&] {
    std::vector<epoll_event> events(256);
    char bytes[1 << 16];
    while (!ended) {
      const int ready = ::epoll_wait(poll, events.data(), 256, 50);
      for (int i = 0; i < ready; ++i) {
        const auto got = ::recv(events[static_cast<size_t>(i)].data.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        const auto since = given.load();
        if (got <= 0 || since == Clock::time_point{}) continue;
        latencies.push_back(std::chrono::duration<double, std::milli>(Clock::now() - since).count());
      }
    }
  });
  const Output output{.tokens = {tokenizer.encode("words").front()}};
  for (int i = 0; i < steps; ++i) {
    const auto begin = Clock::now();
    given = begin;
    metronome.step(output);
    steps_ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    std::this_thread::sleep_until(begin + pause);
  }
  ended = true;
  reading.join();
  const double computed = server_seconds() - before;
  for (const int fd : sockets) ::close(fd);
  server.stop();
  server.stop();
  serving.join();

  std::sort(latencies.begin(), latencies.end());
  std::sort(steps_ms.begin(), steps_ms.end());
  const auto at = [](const std::vector<double>& sorted, double share) {
    return sorted.empty() ? 0.0 : sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
  };
  fmt::print("{} streams, {} steps of {} ms, {} events\n", streams, steps, pause.count(), latencies.size());
  fmt::print("from a step's tokens to a client's event: p50 {:.3f} ms, p99 {:.3f} ms, most {:.3f} ms\n",
             at(latencies, 0.5), at(latencies, 0.99), at(latencies, 1.0));
  fmt::print("the server's thread computes {:.1f} us an event\n",
             1e6 * computed / (streams * static_cast<double>(steps)));
  fmt::print("the engine's thread is held up by callbacks: p50 {:.3f} ms, p99 {:.3f} ms a step\n", at(steps_ms, 0.5),
             at(steps_ms, 0.99));
  return 0;
}
