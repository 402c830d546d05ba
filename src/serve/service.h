// The API: which path does what, who may call it, how many at once, and what is written down about it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "serve/generation.h"
#include "serve/http.h"
#include "serve/metrics.h"
#include "serve/prepared.h"

namespace nibble::serve {

struct ServiceOptions {
  std::vector<std::string> model_names;  // not empty; the first is the one that answers name
  std::vector<std::string> api_keys;     // none: everybody may call
  bool metrics_open = false;             // /metrics needs no key
  bool check_host = false;               // only requests for an address or localhost: see docs/server.md
  std::string cors_origin;               // empty: browsers keep other sites' pages away
  int64_t max_sequences = 16, max_waiting = 1024;
  std::chrono::milliseconds request_timeout{0};  // 0: none
  std::chrono::milliseconds keep_alive{10'000};  // a stream that is silent gets a comment
  text::RenderOptions render;
  SamplingParams sampling;
  int64_t max_tokens = 0;
};

class Service final : public HttpHandler {
 public:
  // What the service needs of its server.
  struct Host {
    Inbox::Post post;                                       // to the server's thread
    std::function<void(std::function<void()>)> background;  // to a worker
    std::function<int64_t()> connections;
  };
  using Log = std::function<void(const std::string& line)>;  // one JSON object a request

  Service(ServiceOptions options, Host host, Log log);

  // On the server's thread from here on. Until open(), requests for the model are told that it is being loaded.
  // Both must outlive the service, or its close().
  void open(Generator& generator, const text::Tokenizer& tokenizer, int64_t context);
  // New requests are refused; `drained` is called once none is left.
  void drain(std::function<void()> drained);
  // Ends what is left, each with an error that says so.
  void end_all();
  // Forgets generator and tokenizer; nothing may be in progress.
  void close();
  void tick();  // now and then: comments on silent streams

  std::optional<HttpResponse> check(const HttpRequest& head) override;
  void handle(HttpRequest request, std::shared_ptr<HttpReply> reply) override;
  HttpResponse malformed(int status, std::string_view message, std::string_view client) override;

  int64_t in_flight() const { return static_cast<int64_t>(active_.size()) + preparing_; }

 private:
  struct Route;
  struct Exchange;  // a request and what the log will say of it
  using ExchangePtr = std::shared_ptr<Exchange>;
  static const Route* find(std::string_view path);
  static std::string_view without_version(std::string_view path);

  bool authorised(const HttpRequest& head) const;
  bool may_come_from(std::string_view origin, std::string_view host) const;
  std::optional<ApiError> admission(int64_t choices) const;
  void respond(const ExchangePtr& exchange, HttpResponse response);
  void respond(const ExchangePtr& exchange, const ApiError& error);
  void log(const HttpRequest& head, const std::string& id, std::chrono::steady_clock::time_point started,
           const Outcome& outcome) const;

  void health(const ExchangePtr& exchange);
  void version(const ExchangePtr& exchange);
  void models(const ExchangePtr& exchange);
  void metrics(const ExchangePtr& exchange);
  void page(const ExchangePtr& exchange);
  void tokenize(const ExchangePtr& exchange);
  void detokenize(const ExchangePtr& exchange);
  void chat(const ExchangePtr& exchange);
  void completion(const ExchangePtr& exchange);
  void messages(const ExchangePtr& exchange);
  void count_tokens(const ExchangePtr& exchange);
  void responses(const ExchangePtr& exchange);

  void in_background(std::function<std::function<void()>()> work);
  void read(const ExchangePtr& exchange, std::function<std::function<void()>(const Json&)> work);
  void reply_with(const ExchangePtr& exchange, std::string (*work)(const Json&, const Knowledge&));
  void generate(const ExchangePtr& exchange, Prepared (*prepare)(const Json&, const Knowledge&));
  void start(const ExchangePtr& exchange, Prepared prepared);
  void ended(Generation& generation, const ExchangePtr& exchange, const Outcome& outcome);

  ServiceOptions options_;
  Host host_;
  Log log_;
  Metrics metrics_;
  std::shared_ptr<Inbox> inbox_;
  int64_t created_ = unix_time();

  Generator* generator_ = nullptr;
  std::optional<Knowledge> knows_;
  std::unordered_set<std::shared_ptr<Generation>> active_;
  int64_t preparing_ = 0;  // on workers
  int64_t sequences_ = 0;  // of active_
  bool draining_ = false;
  std::function<void()> drained_;
};

}  // namespace nibble::serve
