// The listening socket, the threads that have its connections, timers, signals, and workers for what would hold those
// threads up.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "serve/http.h"

namespace nibble::serve {

// How many threads have connections unless somebody says: one for each four processors, at least one, four at most. An
// event costs them ten or twenty microseconds, so one does for dozens of streams; what the engine computes with is
// worth more.
int64_t default_http_threads(int64_t processors);

class HttpServer {
 public:
  // Binds and listens; nothing is answered before run(). Throws Refusal where the address or the certificate is no
  // good.
  explicit HttpServer(const HttpOptions& options);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  bool loopback() const;        // reached from this machine only
  int64_t connections() const;  // from any thread

  // Serves until close() has been called and all connections are done: on the calling thread, which is the first and
  // has timers and signals too, and on others of its own. A connection goes to the thread that has the fewest, and
  // stays. handlers[i], which must outlive this server, answers those of thread i and is called on it alone. One a
  // thread.
  void run(const std::vector<HttpHandler*>& handlers);
  void post(size_t thread, std::function<void()> task);                        // to one of run()'s; from any thread
  void background(std::function<void()> task);                                 // to a worker; from any thread
  void every(std::chrono::milliseconds interval, std::function<void()> task);  // on the first thread; before run()
  // SIGTERM and SIGINT call it, each time, on the first thread, instead of ending the process. Before run().
  void on_signal(std::function<void()> task);
  // Accepts nobody any more; connections end as their answers are out, and all within `patience`. From any thread.
  void close(std::chrono::milliseconds patience);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::serve
