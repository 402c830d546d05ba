// The API: which path does what, who may call it, how many at once, and what is written down about it.
//
// Each of the server's threads has a Service of its own, for the requests of its connections; Common is what they
// share.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "serve/admission.h"
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

// What makes answers, once it is loaded.
struct Model {
  Generator& generator;
  Knowledge knows;
};

class Service final : public HttpHandler {
 public:
  using Log = std::function<void(const std::string& line)>;  // one JSON object a request; called from any thread
  // Used from any thread.
  struct Common {
    Common(ServiceOptions o, Log l);
    const ServiceOptions options;
    const Log log;
    const int64_t created = unix_time();
    Metrics metrics;
    Admission admission;
    std::atomic<const Model*> model = nullptr;  // until then, requests for it are told that it is being loaded
    std::atomic<bool> ending = false;           // what begins now is ended at once
  };
  // What a service needs of its server.
  struct Host {
    Inbox::Post post;                                       // to the service's thread
    std::function<void(std::function<void()>)> background;  // to a worker
    std::function<int64_t()> connections;                   // of all threads
  };

  // `common` must outlive it.
  Service(Common& common, Host host);

  // On the service's thread from here on. Ends what is left, each with an error that says so.
  void end_all();
  // The engine is not listened to any more; nothing may be in progress.
  void close();
  void tick();  // now and then: comments on silent streams

  std::optional<HttpResponse> check(const HttpRequest& head) override;
  void handle(HttpRequest request, std::shared_ptr<HttpReply> reply) override;
  HttpResponse malformed(int status, std::string_view message, std::string_view client) override;

 private:
  struct Route;
  struct Exchange;  // a request and what the log will say of it
  using ExchangePtr = std::shared_ptr<Exchange>;
  static const Route* find(std::string_view path);
  static std::string_view without_version(std::string_view path);

  bool authorised(const HttpRequest& head) const;
  bool may_come_from(std::string_view origin, std::string_view host) const;
  const Model& model() const { return *common_.model; }  // where check() has let a request pass
  // False where it has been refused, and answered.
  bool admitted(const ExchangePtr& exchange, const std::optional<ApiError>& refusal);
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

  Common& common_;
  const ServiceOptions& options_ = common_.options;
  Host host_;
  std::shared_ptr<Inbox> inbox_;
  std::unordered_set<std::shared_ptr<Generation>> active_;
};

}  // namespace nibble::serve
