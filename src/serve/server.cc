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
      http_(options_.http),
      common_(adjusted(options_.service, http_.loopback()), std::move(log)) {
  for (size_t i = 0; i < static_cast<size_t>(options_.http.threads); ++i) {
    services_.push_back(std::make_unique<Service>(
        common_, Service::Host{.post = [this, i](std::function<void()> task) { http_.post(i, std::move(task)); },
                               .background = [this](std::function<void()> task) { http_.background(std::move(task)); },
                               .connections = [this] { return http_.connections(); }}));
  }
  const auto interval =
      std::clamp(options_.service.keep_alive / 4, std::chrono::milliseconds(10), std::chrono::milliseconds(1'000));
  http_.every(interval, [this] { tick(); });
  if (options_.signals) http_.on_signal([this] { stop_here(); });
}

std::string Server::url() const {
  const std::string& host = options_.http.host;
  const bool six = host.find(':') != host.npos;
  return fmt::format("{}://{}:{}", options_.http.tls_cert.empty() ? "http" : "https", six ? "[" + host + "]" : host,
                     port());
}

void Server::open(Generator& generator, const text::Tokenizer& tokenizer, int64_t context) {
  const ServiceOptions& o = common_.options;
  model_.emplace(Model{.generator = generator,
                       .knows = {.tokenizer = tokenizer,
                                 .context = context,
                                 .model_names = o.model_names,
                                 .render = o.render,
                                 .sampling = o.sampling,
                                 .max_tokens = o.max_tokens}});
  common_.model = &*model_;
}

void Server::run() {
  std::vector<HttpHandler*> handlers;
  for (const auto& service : services_) handlers.push_back(service.get());
  http_.run(handlers);
  for (const auto& service : services_) service->close();
}

void Server::tick() {
  for (size_t i = 0; i < services_.size(); ++i) http_.post(i, [service = services_[i].get()] { service->tick(); });
  if (stopping_ && std::chrono::steady_clock::now() > drain_deadline_) end_all();
}

void Server::stop() {
  http_.post(0, [this] { stop_here(); });
}

void Server::stop_here() {
  if (stopping_) return end_all();
  stopping_ = true;
  drain_deadline_ = std::chrono::steady_clock::now() + options_.drain_timeout;
  common_.admission.drain([this] { http_.close(kFlush); });
}

void Server::end_all() {
  common_.ending = true;
  for (size_t i = 0; i < services_.size(); ++i) http_.post(i, [service = services_[i].get()] { service->end_all(); });
}

}  // namespace nibble::serve
