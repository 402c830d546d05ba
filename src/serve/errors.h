// What a client is told when its request cannot be served: OpenAI's error object, or Anthropic's.
#pragma once

#include <stdexcept>
#include <string>

#include "base/error.h"
#include "serve/http.h"

namespace nibble::serve {

enum class Dialect : uint8_t { kOpenAi, kAnthropic };

struct ApiError {
  int status = 400;
  std::string type = "invalid_request_error";
  std::string message;
  std::string param, code;  // empty: null
  int retry_after = 0;      // seconds; 0: no header
};

class RequestError : public std::runtime_error {
 public:
  explicit RequestError(ApiError error) : std::runtime_error(error.message), error_(std::move(error)) {}
  const ApiError& error() const { return error_; }

 private:
  ApiError error_;
};

ApiError invalid(std::string message, std::string param = {}, std::string code = {});
// A refusal of the text layer or the engine is the client's to mend; `param` is the field that it names.
ApiError invalid(const Refusal& refusal);
ApiError not_found(std::string message, std::string code = {});
ApiError unavailable(std::string message, std::string code);  // 503, try again
ApiError internal(std::string message);                       // 500

std::string to_json(const ApiError& error, Dialect dialect = Dialect::kOpenAi);
HttpResponse to_response(const ApiError& error, Dialect dialect = Dialect::kOpenAi);

}  // namespace nibble::serve
