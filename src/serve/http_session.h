// One connection. Boost.Asio is included here, so only http_server.cc and http_session.cc include this.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>

#include <atomic>
#include <memory>
#include <unordered_set>
#include <utility>

#include "serve/http.h"

namespace nibble::serve {

using Clock = std::chrono::steady_clock;

class Connection {
 public:
  virtual ~Connection() = default;
  virtual void sweep(Clock::time_point now) = 0;  // ends what has taken too long
  virtual void shut() = 0;                        // closes now, or once the answer in progress is out
  virtual void abort() = 0;                       // closes now
};

// What all connections of a thread share.
struct Host {
  const HttpOptions& options;
  HttpHandler* handler = nullptr;
  std::unordered_set<Connection*> connections;
  bool closing = false;
  std::atomic<int64_t> open = 0;  // connections, and sockets on their way here; other threads look at it
};

// Takes over an accepted socket, which host.open counts already; lives as long as it has something to do. On the thread
// of `host`.
void serve_plain(boost::asio::ip::tcp::socket socket, Host& host);
void serve_tls(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context& context, Host& host);

}  // namespace nibble::serve
