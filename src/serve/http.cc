#include "serve/http.h"

#include <fmt/format.h>

#include <ctime>

namespace nibble::serve {

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

std::string_view status_text(int status) {
  switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    default: return "Status";
  }
}

namespace {

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[40];
  const size_t size = std::strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &utc);
  return std::string(text, size);
}

// A header value of ours may quote what a client sent: no line break may pass.
bool one_line(std::string_view value) {
  for (const char c : value) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return false;
  }
  return true;
}

}  // namespace

std::string response_head(int status, std::string_view content_type, const Headers& headers, int64_t length,
                          bool keep_alive, bool http_1_0) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\n", status, status_text(status), http_date());
  if (!content_type.empty()) head += fmt::format("Content-Type: {}\r\n", content_type);
  if (length >= 0) {
    head += fmt::format("Content-Length: {}\r\n", length);
  } else if (!http_1_0) {
    head += "Transfer-Encoding: chunked\r\n";
  }
  if (!keep_alive) head += "Connection: close\r\n";
  if (keep_alive && http_1_0) head += "Connection: keep-alive\r\n";
  for (const auto& [name, value] : headers) {
    if (one_line(value)) head += fmt::format("{}: {}\r\n", name, value);
  }
  return head + "\r\n";
}

}  // namespace nibble::serve
