// The listening socket, its thread, timers, signals, and workers for what would hold the thread up.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "serve/http.h"

namespace nibble::serve {

class HttpServer {
 public:
  // Binds and listens; nothing is answered before run(). Throws Refusal where the address or the certificate is no
  // good. `handler` must outlive it.
  HttpServer(const HttpOptions& options, HttpHandler& handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  bool loopback() const;  // reached from this machine only
  int64_t connections() const;

  // Serves on the calling thread until close() has been called and all connections are done.
  void run();
  void post(std::function<void()> task);                                       // to run()'s thread; from any thread
  void background(std::function<void()> task);                                 // to a worker; from any thread
  void every(std::chrono::milliseconds interval, std::function<void()> task);  // before run()
  // SIGTERM and SIGINT call it, each time, instead of ending the process. Before run().
  void on_signal(std::function<void()> task);
  // Accepts nobody any more; connections end as their answers are out, and all within `patience`.
  void close(std::chrono::milliseconds patience);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::serve
