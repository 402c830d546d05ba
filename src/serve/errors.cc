#include "serve/errors.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/json_text.h"

namespace nibble::serve {
namespace {

// "messages[0].role" is a field; "the prompt" is not.
bool names_a_field(std::string_view what) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '[' || c == ']';
  };
  return !what.empty() && std::all_of(what.begin(), what.end(), allowed);
}

std::string or_null(const std::string& text) { return text.empty() ? "null" : text::json_quoted(text); }

}  // namespace

ApiError invalid(std::string message, std::string param, std::string code) {
  return {.message = std::move(message), .param = std::move(param), .code = std::move(code)};
}

ApiError invalid(const Refusal& refusal) {
  const Refusal::Parts& p = refusal.parts();
  const std::string field = p.what.substr(0, p.what.find(' '));
  return {.message = fmt::format("{}: {}; {}; try: {}", p.what, p.seen, p.rule, p.fix),
          .param = names_a_field(field) && field != "the" ? field : std::string()};
}

ApiError not_found(std::string message, std::string code) {
  return {.status = 404, .type = "not_found_error", .message = std::move(message), .code = std::move(code)};
}

ApiError unavailable(std::string message, std::string code) {
  return {.status = 503,
          .type = "unavailable_error",
          .message = std::move(message),
          .code = std::move(code),
          .retry_after = 5};
}

ApiError internal(std::string message) {
  return {.status = 500, .type = "server_error", .message = std::move(message)};
}

std::string to_json(const ApiError& e, Dialect dialect) {
  const std::string message = text::json_quoted(e.message);
  if (dialect == Dialect::kAnthropic) {
    // Its own names for what its clients look at.
    const std::string type = e.status == 413                      ? "request_too_large"
                             : e.status == 503 || e.status == 529 ? "overloaded_error"
                             : e.status >= 500                    ? "api_error"
                                                                  : e.type;
    return fmt::format(R"({{"type":"error","error":{{"type":{},"message":{}}}}})", text::json_quoted(type), message);
  }
  return fmt::format(R"({{"error":{{"message":{},"type":{},"param":{},"code":{}}}}})", message,
                     text::json_quoted(e.type), or_null(e.param), or_null(e.code));
}

HttpResponse to_response(const ApiError& error, Dialect dialect) {
  HttpResponse response{.status = error.status, .body = to_json(error, dialect), .headers = {}};
  if (error.retry_after > 0) response.headers.emplace_back("Retry-After", std::to_string(error.retry_after));
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace nibble::serve
