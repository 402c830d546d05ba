// HTTP as the rest of the folder sees it: requests that have arrived whole, answers whole or in pieces.
//
// A connection belongs to one of the server's threads for life, and everything here that is about it happens there, but
// for what is said to be callable from any. No name of the HTTP library is in this header: only http_session.cc and
// http_server.cc know it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nibble::serve {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;
  std::string path;                                      // of the target, before any '?'
  Headers headers;                                       // names in lower case
  std::string body;                                      // empty while only the head has arrived
  std::string client;                                    // "127.0.0.1:51234"
  std::string_view header(std::string_view name) const;  // empty if there is none
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers;
};

// The answer to one request: send(), or begin(), write()s and end(). Calls after the end, or after the client went, do
// nothing.
class HttpReply {
 public:
  virtual ~HttpReply() = default;
  virtual void send(HttpResponse response) = 0;
  virtual void begin(int status, std::string content_type, Headers headers) = 0;
  virtual void write(std::string_view bytes) = 0;
  virtual void end() = 0;
  // Called once, and at once where that has happened, if the client goes before the end: its connection broke, it
  // closed its side, it reads too slowly.
  virtual void on_gone(std::function<void(std::string_view why)> callback) = 0;
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Sees the head before the body is read; an answer here ends the request.
  virtual std::optional<HttpResponse> check(const HttpRequest& head) = 0;
  virtual void handle(HttpRequest request, std::shared_ptr<HttpReply> reply) = 0;
  // What to say to a request that could not be read.
  virtual HttpResponse malformed(int status, std::string_view message, std::string_view client) = 0;
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;           // 0: any that is free
  std::string tls_cert, tls_key;  // PEM files; both, or neither for plain HTTP
  int64_t max_body = 64 << 20;
  int64_t max_head = 64 << 10;
  int64_t threads = 1;             // that have connections
  int64_t max_connections = 4096;  // further ones are closed at once
  int64_t max_unsent = 1 << 20;    // bytes of a stream that may wait for a slow reader
  std::chrono::milliseconds head_timeout{10'000}, body_timeout{60'000}, idle_timeout{75'000}, write_timeout{60'000};
};

// "Reason" of a status line.
std::string_view status_text(int status);
// The status line and headers; `length` < 0 stands for a body in chunks.
std::string response_head(int status, std::string_view content_type, const Headers& headers, int64_t length,
                          bool keep_alive, bool http_1_0);

}  // namespace nibble::serve
