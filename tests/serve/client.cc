#include "serve/client.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

namespace nibble::serve {

Client::Client(uint16_t port, int receive_buffer) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
  const timeval minute{60, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof(minute));
  const int one = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  if (receive_buffer > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) throw std::runtime_error("cannot connect");
}

Client::~Client() { shut(); }

Client::Client(Client&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      buffer_(std::move(other.buffer_)),
      stream_(std::move(other.stream_)),
      chunked_(other.chunked_),
      ended_(other.ended_) {}

void Client::shut() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void Client::send_end() { ::shutdown(fd_, SHUT_WR); }

void Client::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) throw std::runtime_error("the server does not read");
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

void Client::post(const std::string& path, const std::string& body, const std::string& more_headers) {
  send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
       std::to_string(body.size()) + "\r\n" + more_headers + "\r\n" + body);
}

void Client::get(const std::string& path, const std::string& more_headers) {
  send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + more_headers + "\r\n");
}

bool Client::fill() {
  char bytes[16384];
  const ssize_t got = ::recv(fd_, bytes, sizeof(bytes), 0);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) throw std::runtime_error("no answer within a minute");
  if (got <= 0) return false;
  buffer_.append(bytes, static_cast<size_t>(got));
  return true;
}

std::string Client::line() {
  size_t end = 0;
  while ((end = buffer_.find("\r\n")) == buffer_.npos) {
    if (!fill()) throw std::runtime_error("the connection ended within a line: " + buffer_);
  }
  std::string out = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return out;
}

std::string Client::exactly(size_t size) {
  while (buffer_.size() < size) {
    if (!fill()) throw std::runtime_error("the connection ended within a body");
  }
  std::string out = buffer_.substr(0, size);
  buffer_.erase(0, size);
  return out;
}

Answer Client::read_head() {
  Answer out;
  const std::string status = line();
  if (!status.starts_with("HTTP/1.1 ")) throw std::runtime_error("no status line: " + status);
  out.status = std::stoi(status.substr(9));
  for (std::string header = line(); !header.empty(); header = line()) {
    const size_t colon = header.find(": ");
    std::string name = header.substr(0, colon);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    out.headers[name] = header.substr(colon + 2);
  }
  return out;
}

Answer Client::answer(bool head_only) {
  Answer out = read_head();
  if (head_only) return out;
  if (out.headers.count("content-length") > 0) {
    out.body = exactly(std::stoul(out.headers["content-length"]));
  } else if (out.headers["transfer-encoding"] == "chunked") {
    while (const size_t size = std::stoul(line(), nullptr, 16)) out.body += exactly(size), line();
    line();
  } else if (out.status != 100 && out.status != 204) {
    out.body = rest();
  }
  return out;
}

Answer Client::head() {
  Answer out = read_head();
  chunked_ = out.headers.count("transfer-encoding") > 0;  // there is but one
  ended_ = false;
  stream_.clear();
  return out;
}

std::optional<std::string> Client::event() {
  size_t end = 0;
  while ((end = stream_.find("\n\n")) == stream_.npos) {
    if (ended_) return {};
    if (!chunked_) {
      if (buffer_.empty() && !fill()) ended_ = true;
      stream_ += std::exchange(buffer_, "");
      continue;
    }
    const size_t size = std::stoul(line(), nullptr, 16);
    stream_ += exactly(size);
    line();
    if (size == 0) ended_ = true;
  }
  std::string out = stream_.substr(0, end);
  stream_.erase(0, end + 2);
  return out.starts_with("data: ") ? out.substr(6) : out;
}

std::string Client::rest() {
  while (fill()) {
  }
  return std::exchange(buffer_, "");
}

bool Client::closed() {
  while (fill()) {
  }
  return true;
}

Answer post(uint16_t port, const std::string& path, const std::string& body, const std::string& more_headers) {
  Client client(port);
  client.post(path, body, more_headers);
  return client.answer();
}

Answer get(uint16_t port, const std::string& path, const std::string& more_headers) {
  Client client(port);
  client.get(path, more_headers);
  return client.answer();
}

Gathered gather(Client& client, int choice) {
  Gathered out;
  while (const std::optional<std::string> event = client.event()) {
    if (event->starts_with(':')) continue;
    if (*event == "[DONE]") {
      out.done = true;
      continue;
    }
    ++out.events;
    const TestJson json = TestJson::parse(*event);  // throws where it is not JSON, or not UTF-8
    if (json.contains("error")) out.error = json["error"]["message"];
    if (json.contains("usage")) out.usage = json["usage"];
    if (!json.contains("choices")) continue;
    for (const TestJson& c : json["choices"]) {
      if (c["index"] != choice) continue;
      if (c.contains("text")) out.content += c["text"].get<std::string>();
      if (c["finish_reason"].is_string()) out.finish_reason = c["finish_reason"];
      if (c["logprobs"].is_object() && c["logprobs"].contains("content")) {
        for (const TestJson& token : c["logprobs"]["content"]) out.logprobs.push_back(token);
      }
      if (!c.contains("delta")) continue;
      const TestJson& delta = c["delta"];
      if (delta.contains("role")) out.role = delta["role"];
      if (delta.contains("content")) out.content += delta["content"].get<std::string>();
      if (delta.contains("reasoning_content")) {
        out.reasoning += delta["reasoning_content"].get<std::string>();
        if (delta["reasoning"] != delta["reasoning_content"]) throw std::runtime_error("two different thoughts");
      }
      if (!delta.contains("tool_calls")) continue;
      for (const TestJson& call : delta["tool_calls"]) {
        Gathered::Call& to = out.calls[call["index"]];
        if (call.contains("id")) to.id = call["id"];
        if (call["function"].contains("name")) to.name = call["function"]["name"];
        to.arguments += call["function"]["arguments"].get<std::string>();
        ++to.fragments;
      }
    }
  }
  return out;
}

}  // namespace nibble::serve
