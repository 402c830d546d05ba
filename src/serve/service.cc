#include "serve/service.h"

#include <fmt/format.h>

#include <algorithm>

#include "serve/keys.h"
#include "serve/tokenize_api.h"
#include "serve/web_page.h"
#include "text/chat_json.h"
#include "text/json_text.h"

namespace nibble::serve {
namespace {

using Clock = std::chrono::steady_clock;
using text::json_quoted;

constexpr size_t kInline = 32 << 10;  // bytes of a body that are read at once, without holding other connections up

// What a client may call its request: printable, and short enough to log.
std::string request_id(const HttpRequest& head) {
  const std::string_view sent = head.header("x-request-id");
  const bool fine = !sent.empty() && sent.size() <= 128 &&
                    std::all_of(sent.begin(), sent.end(), [](char c) { return c > 0x20 && c < 0x7F; });
  return fine ? std::string(sent) : new_id("req-");
}

Dialect dialect_of(std::string_view path) {
  return path.starts_with("/v1/messages") || path.starts_with("/messages") ? Dialect::kAnthropic : Dialect::kOpenAi;
}

}  // namespace

enum class Needs : uint8_t { kNothing, kKey, kModel };  // kModel: a key too

struct Service::Route {
  std::string_view path;  // without /v1
  std::string_view method;
  Needs needs;
  void (Service::*run)(const ExchangePtr&);
};

struct Service::Exchange {
  HttpRequest request;
  std::shared_ptr<HttpReply> reply;
  std::string id;
  Clock::time_point started = Clock::now();
  Headers headers;  // of the answer
};

std::string_view Service::without_version(std::string_view path) {
  if (path.starts_with("/v1/")) path.remove_prefix(3);
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

const Service::Route* Service::find(std::string_view path) {
  static constexpr Route kRoutes[] = {
      {"/", "GET", Needs::kNothing, &Service::page},  // and the files it consists of
      {"/health", "GET", Needs::kNothing, &Service::health},
      {"/ready", "GET", Needs::kNothing, &Service::health},
      {"/ping", "GET", Needs::kNothing, &Service::health},
      {"/version", "GET", Needs::kKey, &Service::version},
      {"/models", "GET", Needs::kModel, &Service::models},
      {"/metrics", "GET", Needs::kKey, &Service::metrics},
      {"/tokenize", "POST", Needs::kModel, &Service::tokenize},
      {"/detokenize", "POST", Needs::kModel, &Service::detokenize},
      {"/chat/completions", "POST", Needs::kModel, &Service::chat},
      {"/completions", "POST", Needs::kModel, &Service::completion},
      {"/messages", "POST", Needs::kModel, &Service::messages},
      {"/messages/count_tokens", "POST", Needs::kModel, &Service::count_tokens},
      {"/responses", "POST", Needs::kModel, &Service::responses},
  };
  path = without_version(path);
  if (path.starts_with("/models/")) path = "/models";
  if (is_web_file(path)) path = "/";
  for (const Route& route : kRoutes) {
    if (route.path == path) return &route;
  }
  return nullptr;
}

Service::Common::Common(ServiceOptions o, Log l)
    : options(std::move(o)),
      log(std::move(l)),
      metrics(options.model_names.front()),
      admission(options.max_sequences, options.max_waiting) {}

Service::Service(Common& common, Host host)
    : common_(common), host_(std::move(host)), inbox_(std::make_shared<Inbox>(host_.post)) {}

void Service::end_all() {
  const auto all = active_;
  for (const auto& generation : all) generation->fail(unavailable("the server is shutting down", "draining"));
}

void Service::close() {
  inbox_->close();
  active_.clear();
}

void Service::tick() {
  const auto all = active_;
  for (const auto& generation : all) generation->keep_alive(options_.keep_alive);
}

bool Service::authorised(const HttpRequest& head) const {
  if (options_.api_keys.empty()) return true;
  std::string_view key = head.header("authorization");
  constexpr std::string_view kBearer = "bearer ";
  const bool bearer = key.size() > kBearer.size() && std::equal(kBearer.begin(), kBearer.end(), key.begin(),
                                                                [](char a, char b) { return a == (b | 0x20); });
  key = bearer ? key.substr(kBearer.size()) : head.header("x-api-key");
  return is_one_of(key, options_.api_keys);
}

// A page of this server's own, or of the site that was named.
bool Service::may_come_from(std::string_view origin, std::string_view host) const {
  const size_t slashes = origin.find("://");
  const bool ours = slashes != origin.npos && origin.substr(slashes + 3) == host;
  return ours || options_.cors_origin == "*" || origin == options_.cors_origin;
}

std::optional<HttpResponse> Service::check(const HttpRequest& head) {
  const auto started = Clock::now();
  const auto refuse = [&](const ApiError& error) {
    const std::string id = request_id(head);
    log(head, id, started, {.status = error.status, .finish = error.message});
    HttpResponse response = to_response(error, dialect_of(head.path));
    response.headers.emplace_back("X-Request-Id", id);
    if (!options_.cors_origin.empty())
      response.headers.emplace_back("Access-Control-Allow-Origin", options_.cors_origin);
    return response;
  };
  if (head.method == "OPTIONS" && !options_.cors_origin.empty()) {
    return HttpResponse{.status = 204,
                        .content_type = "",
                        .headers = {{"Access-Control-Allow-Origin", options_.cors_origin},
                                    {"Access-Control-Allow-Methods", "GET, POST"},
                                    {"Access-Control-Allow-Headers", "authorization, content-type, x-api-key"}}};
  }
  if (options_.check_host && !names_an_address(head.header("host"))) {
    return refuse({.status = 403,
                   .type = "permission_error",
                   .message = "this server is for this machine: call it by its address or as localhost, or start it "
                              "with --api-key"});
  }
  const Route* route = find(head.path);
  if (!route) return refuse(not_found(fmt::format("there is no {} here", head.path)));
  if (head.method != route->method && !(head.method == "HEAD" && route->method == "GET")) {
    HttpResponse response = refuse({.status = 405, .message = fmt::format("{} takes {}", head.path, route->method)});
    response.headers.emplace_back("Allow", std::string(route->method));
    return response;
  }
  const bool open = route->needs == Needs::kNothing || (route->path == "/metrics" && options_.metrics_open);
  if (!open && !authorised(head)) {
    return refuse({.status = 401,
                   .type = "authentication_error",
                   .message = "the API key is missing or wrong; send Authorization: Bearer KEY",
                   .code = "invalid_api_key"});
  }
  if (route->needs == Needs::kModel) {
    if (common_.admission.draining()) return refuse(unavailable("the server is shutting down", "draining"));
    if (!common_.model) return refuse(unavailable("the model is being loaded", "loading"));
  }
  if (route->method == "POST") {
    const std::string_view origin = head.header("origin");
    if (!origin.empty() && !may_come_from(origin, head.header("host"))) {
      return refuse({.status = 403,
                     .type = "permission_error",
                     .message = "pages of other sites may not call: --cors-origin names those that may"});
    }
    const std::string_view type = head.header("content-type");
    if (!type.empty() && type.substr(0, type.find(';')).find("json") == type.npos) {
      return refuse({.status = 415, .message = "the body is JSON: Content-Type: application/json"});
    }
  }
  return {};
}

HttpResponse Service::malformed(int status, std::string_view message, std::string_view client) {
  const HttpRequest nothing{.method = "?", .path = "?", .headers = {}, .body = {}, .client = std::string(client)};
  log(nothing, "-", Clock::now(), {.status = status, .finish = std::string(message)});
  return to_response({.status = status,
                      .type = status == 408 ? "timeout" : "invalid_request_error",
                      .message = std::string(message),
                      .code = status == 413 ? "request_too_large" : ""});
}

void Service::handle(HttpRequest request, std::shared_ptr<HttpReply> reply) {
  const auto exchange = std::make_shared<Exchange>();
  exchange->id = request_id(request);
  exchange->request = std::move(request);
  exchange->reply = std::move(reply);
  exchange->headers.emplace_back("X-Request-Id", exchange->id);
  if (!options_.cors_origin.empty()) {
    exchange->headers.emplace_back("Access-Control-Allow-Origin", options_.cors_origin);
  }
  const Route* route = find(exchange->request.path);
  (this->*route->run)(exchange);  // check() has found it
}

void Service::respond(const ExchangePtr& exchange, HttpResponse response) {
  response.headers.insert(response.headers.end(), exchange->headers.begin(), exchange->headers.end());
  log(exchange->request, exchange->id, exchange->started, {.status = response.status});
  exchange->reply->send(std::move(response));
}

void Service::respond(const ExchangePtr& exchange, const ApiError& error) {
  HttpResponse response = to_response(error, dialect_of(exchange->request.path));
  response.headers.insert(response.headers.end(), exchange->headers.begin(), exchange->headers.end());
  log(exchange->request, exchange->id, exchange->started, {.status = error.status, .finish = error.message});
  exchange->reply->send(std::move(response));
}

void Service::log(const HttpRequest& head, const std::string& id, Clock::time_point started,
                  const Outcome& outcome) const {
  if (!common_.log) return;
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - started).count();
  std::string line = fmt::format(R"({{"time":{},"client":{},"id":{},"method":{},"path":{},"status":{},"ms":{:.3f})",
                                 unix_time(), json_quoted(head.client), json_quoted(id), json_quoted(head.method),
                                 json_quoted(printable(head.path)), outcome.status, ms);
  if (outcome.usage.prompt > 0) {
    line += fmt::format(R"(,"prompt_tokens":{},"cached_tokens":{},"completion_tokens":{})", outcome.usage.prompt,
                        outcome.usage.cached, outcome.usage.completion);
  }
  if (!outcome.finish.empty()) line += R"(,"end":)" + json_quoted(outcome.finish);
  common_.log(line + "}");
}

// Generation.

bool Service::admitted(const ExchangePtr& exchange, const std::optional<ApiError>& refusal) {
  if (!refusal) return true;
  if (refusal->status == 429) common_.metrics.rejected();
  respond(exchange, *refusal);
  return false;
}

// What `work` returns runs on the service's thread; `work` itself on a worker where it may take long.
void Service::read(const ExchangePtr& exchange, std::function<std::function<void()>(const Json&)> work) {
  const auto result = [this, exchange, work = std::move(work)]() -> std::function<void()> {
    try {
      const Json json = text::parse_json(exchange->request.body);
      std::string().swap(exchange->request.body);
      return work(json);
    } catch (const Refusal& refusal) {
      return [this, exchange, error = invalid(refusal)] { respond(exchange, error); };
    } catch (const RequestError& refused) {
      return [this, exchange, error = refused.error()] { respond(exchange, error); };
    } catch (const std::exception& failure) {
      return [this, exchange, error = internal(failure.what())] { respond(exchange, error); };
    }
  };
  if (exchange->request.body.size() <= kInline) return result()();
  in_background(result);
}

void Service::reply_with(const ExchangePtr& exchange, std::string (*work)(const Json&, const Knowledge&)) {
  read(exchange, [this, exchange, work](const Json& json) -> std::function<void()> {
    return [this, exchange, body = work(json, model().knows)] {
      respond(exchange, HttpResponse{.body = body, .headers = {}});
    };
  });
}

void Service::generate(const ExchangePtr& exchange, Prepared (*prepare)(const Json&, const Knowledge&)) {
  if (!admitted(exchange, common_.admission.refusal(1))) return;  // before the work of reading
  read(exchange, [this, exchange, prepare](const Json& json) -> std::function<void()> {
    return [this, exchange, prepared = std::make_shared<Prepared>(prepare(json, model().knows))] {
      start(exchange, std::move(*prepared));
    };
  });
}

void Service::start(const ExchangePtr& exchange, Prepared prepared) {
  int64_t choices = 0;
  for (Request& request : prepared.requests) {
    choices += request.choices;
    if (options_.request_timeout.count() > 0) request.deadline = Clock::now() + options_.request_timeout;
  }
  if (!admitted(exchange, common_.admission.enter(choices))) return;
  const auto generation = std::make_shared<Generation>(
      std::move(prepared), model().knows.tokenizer, model().generator, common_.metrics, exchange->reply,
      exchange->headers, dialect_of(exchange->request.path), [this, choices] { common_.admission.release(choices); },
      [this, exchange](Generation& g, const Outcome& outcome) { ended(g, exchange, outcome); });
  const auto submitted = [this, exchange, generation, choices](const std::optional<ApiError>& refusal) {
    if (refusal) {
      common_.admission.release(choices);
      respond(exchange, *refusal);
      return common_.admission.leave();
    }
    active_.insert(generation);
    generation->begin();
    if (common_.ending) generation->fail(unavailable("the server is shutting down", "draining"));
  };
  const auto submit = [generation, inbox = inbox_]() -> std::optional<ApiError> {
    try {
      generation->submit(inbox);
      return {};
    } catch (const Refusal& refusal) {
      return invalid(refusal);
    } catch (const std::exception& failure) {
      return internal(failure.what());
    }
  };
  if (!generation->takes_long_to_submit()) return submitted(submit());
  in_background([submitted, submit]() -> std::function<void()> {
    return [submitted, refusal = submit()] { submitted(refusal); };
  });
}

// `work` on a worker, and what it returns on the service's thread.
void Service::in_background(std::function<std::function<void()>()> work) {
  common_.admission.enter_work();
  host_.background([this, work = std::move(work)] {
    host_.post([this, then = work()] {
      then();
      common_.admission.leave();
    });
  });
}

void Service::ended(Generation& generation, const ExchangePtr& exchange, const Outcome& outcome) {
  log(exchange->request, exchange->id, exchange->started, outcome);
  active_.erase(generation.shared_from_this());
  common_.admission.leave();
}

void Service::chat(const ExchangePtr& exchange) { generate(exchange, prepare_chat); }
void Service::completion(const ExchangePtr& exchange) { generate(exchange, prepare_completion); }
void Service::messages(const ExchangePtr& exchange) { generate(exchange, prepare_messages); }
void Service::responses(const ExchangePtr& exchange) { generate(exchange, prepare_response); }
void Service::count_tokens(const ExchangePtr& exchange) { reply_with(exchange, serve::count_tokens); }

// The rest.

void Service::health(const ExchangePtr& exchange) {
  const bool draining = common_.admission.draining(), ready = common_.model && !draining;
  const bool alive = without_version(exchange->request.path) != "/ready" && (ready || draining);
  if (ready || alive) return respond(exchange, HttpResponse{.body = R"({"status":"ok"})", .headers = {}});
  respond(exchange, draining ? unavailable("the server is shutting down", "draining")
                             : unavailable("the model is being loaded", "loading"));
}

void Service::version(const ExchangePtr& exchange) {
  respond(exchange, HttpResponse{.body = R"({"version":")" NIBBLE_VERSION R"("})", .headers = {}});
}

void Service::models(const ExchangePtr& exchange) {
  const auto entry = [&](const std::string& name) {
    return fmt::format(
        R"({{"id":{0},"object":"model","created":{1},"owned_by":"nibble","root":{0},"parent":null,"max_model_len":{2},"context_length":{2},"permission":[],"meta":{{"n_ctx_train":{2},"n_vocab":{3}}}}})",
        json_quoted(name), common_.created, model().knows.context, model().knows.tokenizer.vocab_size());
  };
  const std::string_view path = without_version(exchange->request.path);
  constexpr std::string_view kPrefix = "/models/";
  if (path.starts_with(kPrefix)) {
    const std::string name(path.substr(kPrefix.size()));
    const auto& names = options_.model_names;
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return respond(exchange,
                     not_found(fmt::format("the model {} does not exist here", printable(name)), "model_not_found"));
    }
    return respond(exchange, HttpResponse{.body = entry(name), .headers = {}});
  }
  std::vector<std::string> entries;
  for (const std::string& name : options_.model_names) entries.push_back(entry(name));
  respond(exchange, HttpResponse{.body = fmt::format(R"({{"object":"list","data":[{}]}})", fmt::join(entries, ",")),
                                 .headers = {}});
}

void Service::metrics(const ExchangePtr& exchange) {
  const Model* model = common_.model;
  const EngineStats stats = model ? model->generator.stats() : EngineStats{};
  respond(exchange, HttpResponse{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                                 .body = common_.metrics.text(stats, host_.connections()),
                                 .headers = {}});
}

void Service::page(const ExchangePtr& exchange) {
  respond(exchange, web_page(without_version(exchange->request.path)));
}

void Service::tokenize(const ExchangePtr& exchange) { reply_with(exchange, serve::tokenize); }
void Service::detokenize(const ExchangePtr& exchange) { reply_with(exchange, serve::detokenize); }

}  // namespace nibble::serve
