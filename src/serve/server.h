// The whole server: the API on its socket, from the first connection to an orderly end.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/http_server.h"
#include "serve/service.h"

namespace nibble::serve {

struct ServerOptions {
  HttpOptions http;
  ServiceOptions service;
  std::chrono::milliseconds drain_timeout{30'000};  // for answers in progress, once it is to end
  bool signals = false;                             // SIGTERM and SIGINT call stop()
};

class Server {
 public:
  // Binds; throws Refusal.
  Server(ServerOptions options, Service::Log log);

  uint16_t port() const { return http_.port(); }
  std::string url() const;
  bool loopback() const { return http_.loopback(); }
  int64_t connections() const { return http_.connections(); }  // from any thread

  // From here on requests are served. Once, from any thread; all must outlive run().
  void open(Generator& generator, const text::Tokenizer& tokenizer, int64_t context);
  // On the calling thread, and further ones where http.threads says so, until it has been stopped and every answer is
  // out.
  void run();
  // From any thread. The first call lets answers in progress end, for a while, and refuses new requests; the second
  // ends them at once. Each client gets a reason.
  void stop();

 private:
  // On the first thread.
  void tick();
  void stop_here();
  void end_all();

  ServerOptions options_;
  HttpServer http_;
  Service::Common common_;
  std::vector<std::unique_ptr<Service>> services_;  // one a thread
  std::optional<Model> model_;
  bool stopping_ = false;
  std::chrono::steady_clock::time_point drain_deadline_;
};

}  // namespace nibble::serve
