#include "serve/server.h"

#include <fmt/format.h>

#include <algorithm>

namespace nibble::serve {
namespace {

constexpr std::chrono::milliseconds kFlush{5'000};  // for the last bytes of answers to slow readers

ServiceOptions adjusted(ServiceOptions options, bool loopback) {
  options.check_host = loopback && options.api_keys.empty();
  return options;
}

}  // namespace

Server::Server(ServerOptions options, Service::Log log)
    : options_(std::move(options)),
      http_(options_.http, service_),
      service_(adjusted(options_.service, http_.loopback()),
               {.post = [this](std::function<void()> task) { http_.post(std::move(task)); },
                .background = [this](std::function<void()> task) { http_.background(std::move(task)); },
                .connections = [this] { return http_.connections(); }},
               std::move(log)) {
  const auto tick =
      std::clamp(options_.service.keep_alive / 4, std::chrono::milliseconds(10), std::chrono::milliseconds(1'000));
  http_.every(tick, [this] {
    service_.tick();
    if (stopping_ && std::chrono::steady_clock::now() > drain_deadline_) service_.end_all();
  });
  if (options_.signals) http_.on_signal([this] { stop_here(); });
}

std::string Server::url() const {
  const std::string& host = options_.http.host;
  const bool six = host.find(':') != host.npos;
  return fmt::format("{}://{}:{}", options_.http.tls_cert.empty() ? "http" : "https", six ? "[" + host + "]" : host,
                     port());
}

void Server::open(Generator& generator, const text::Tokenizer& tokenizer, int64_t context) {
  http_.post([this, &generator, &tokenizer, context] { service_.open(generator, tokenizer, context); });
}

void Server::run() {
  http_.run();
  service_.close();
}

void Server::stop() {
  http_.post([this] { stop_here(); });
}

void Server::stop_here() {
  if (stopping_) return service_.end_all();
  stopping_ = true;
  drain_deadline_ = std::chrono::steady_clock::now() + options_.drain_timeout;
  service_.drain([this] { http_.close(kFlush); });
}

}  // namespace nibble::serve
