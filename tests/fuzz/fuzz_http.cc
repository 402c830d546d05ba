// The bytes of a connection, in pieces of any size: whatever they are, what comes back is a sequence of whole answers,
// and a handler sees only requests within the limits. The connection is a pair of sockets, both ends on this thread.
#include <boost/asio/io_context.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "serve/http_session.h"

namespace {

using namespace nibble::serve;

void require(bool held) {
  if (!held) std::abort();
}

HttpOptions small_limits() {
  HttpOptions options;
  options.max_head = 512;
  options.max_body = 256;
  options.max_unsent = 4096;
  return options;
}
const HttpOptions kOptions = small_limits();
constexpr size_t kMostPieces = 32;

class Echo final : public HttpHandler {
 public:
  std::optional<HttpResponse> check(const HttpRequest& head) override {
    require(!head.method.empty() && head.path.find('?') == head.path.npos && head.body.empty());
    size_t size = 0;
    for (const auto& [name, value] : head.headers) {
      require(std::none_of(name.begin(), name.end(), [](char c) { return c >= 'A' && c <= 'Z'; }));
      require(value.find_first_of("\r\n") == value.npos);
      size += name.size() + value.size();
    }
    require(size <= static_cast<size_t>(kOptions.max_head));
    if (head.path == "/refuse") return HttpResponse{.status = 401, .body = "{}"};
    return std::nullopt;
  }
  void handle(HttpRequest request, std::shared_ptr<HttpReply> reply) override {
    require(request.body.size() <= static_cast<size_t>(kOptions.max_body));
    if (request.path != "/stream" || request.method != "POST") {
      return reply->send({.body = std::string(request.body.size(), 'x')});
    }
    reply->on_gone([](std::string_view) {});
    reply->begin(200, "text/event-stream", {});
    reply->write("data: 1\n\n");
    reply->write(request.body);
    reply->end();
  }
  HttpResponse malformed(int status, std::string_view message, std::string_view) override {
    require(status >= 400 && status < 500 && !message.empty());
    return {.status = status, .body = std::string(message)};
  }
};

// Answers as a client would read them. HEAD has no body, and only the server knows which that was: so bodies that are
// not there are told by the next status line.
void check_answers(std::string_view out) {
  const auto take = [&](size_t size) {
    require(out.size() >= size);
    out.remove_prefix(size);
  };
  while (!out.empty()) {
    require(out.starts_with("HTTP/1."));
    const size_t end = out.find("\r\n\r\n");
    require(end != out.npos);
    const std::string_view head = out.substr(0, end + 2);
    take(end + 4);
    const size_t length = head.find("Content-Length: ");
    if (length != head.npos) {
      size_t size = 0;
      std::from_chars(head.data() + length + 16, head.data() + head.size(), size);
      if (!out.starts_with("HTTP/1.") || size == 0) take(out.empty() ? 0 : size);
    } else if (head.find("Transfer-Encoding: chunked") != head.npos) {
      for (size_t size = 1; size > 0;) {
        require(std::from_chars(out.data(), out.data() + out.size(), size, 16).ec == std::errc());
        take(out.find("\r\n") + 2);
        take(size);
        require(out.starts_with("\r\n"));
        take(2);
      }
    } else if (head.substr(9, 3) != "100") {
      return;  // to the end of the connection
    }
  }
}

}  // namespace

// The first byte is the size of the pieces; 0: all at once.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static Echo handler;
  static Host host{.options = kOptions, .handler = &handler};
  static boost::asio::io_context context{1};
  int ends[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  ++host.open;
  serve_plain({context, boost::asio::ip::tcp::v4(), ends[0]}, host);
  std::string out;
  const auto turn = [&] {
    context.restart();
    context.poll();
    char bytes[4096];
    for (ssize_t got = 0; (got = ::read(ends[1], bytes, sizeof(bytes))) > 0;)
      out.append(bytes, static_cast<size_t>(got));
  };
  const size_t piece = data[0] == 0 ? size : std::max<size_t>(data[0], size / kMostPieces);
  for (size_t at = 1; at < size && !host.connections.empty(); at += piece) {
    if (::send(ends[1], data + at, std::min(piece, size - at), MSG_NOSIGNAL) < 0) break;
    turn();
  }
  ::shutdown(ends[1], SHUT_WR);
  for (int i = 0; i < 16 && !host.connections.empty(); ++i) turn();
  require(host.connections.empty() && host.open == 0);
  ::close(ends[1]);
  check_answers(out);
  return 0;
}
