#include "serve/scripted_server.h"

#include <chrono>

namespace nibble::serve {
namespace {

constexpr auto kPatience = std::chrono::minutes(1);

}  // namespace

Engine::Id ScriptedGenerator::submit(Request request, Engine::Callback callback) {
  const std::lock_guard lock(mutex_);
  const Engine::Id id = requests_.size() + 1;
  requests_.emplace(id, std::pair(std::move(request), std::move(callback)));
  changed_.notify_all();
  return id;
}

void ScriptedGenerator::cancel(Engine::Id id) {
  const std::lock_guard lock(mutex_);
  cancelled_[id] = true;
  changed_.notify_all();
}

Engine::Id ScriptedGenerator::wait_for_request(size_t number) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, kPatience, [&] { return requests_.size() >= number; })) {
    throw std::runtime_error("no request came");
  }
  return number;
}

void ScriptedGenerator::wait_for_cancel(Engine::Id id) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, kPatience, [&] { return cancelled_.count(id) > 0; })) {
    throw std::runtime_error("the request was not cancelled");
  }
}

bool ScriptedGenerator::cancelled(Engine::Id id) const {
  const std::lock_guard lock(mutex_);
  return cancelled_.count(id) > 0;
}

const Request& ScriptedGenerator::request(Engine::Id id) const {
  const std::lock_guard lock(mutex_);
  return requests_.at(id).first;
}

void ScriptedGenerator::give(Engine::Id id, const Output& output) {
  Engine::Callback callback;
  {
    const std::lock_guard lock(mutex_);
    callback = requests_.at(id).second;
  }
  callback(id, output);
}

void ScriptedGenerator::give(Engine::Id id, std::vector<int32_t> tokens, FinishReason finish) {
  Output output;
  output.tokens = std::move(tokens);
  output.finish = finish;
  give(id, output);
}

const text::Tokenizer& ScriptedServer::tokenizer() {
  static const text::Tokenizer tokenizer = text::Tokenizer::load(NIBBLE_SOURCE_DIR "/models/k3-tiny", 2048);
  return tokenizer;
}

ServerOptions ScriptedServer::quick() {
  using std::chrono::milliseconds;
  ServerOptions o;
  o.http.head_timeout = o.http.body_timeout = o.http.idle_timeout = o.http.write_timeout = milliseconds(100);
  o.service.keep_alive = milliseconds(20);
  o.drain_timeout = milliseconds(100);
  return o;
}

void ScriptedServer::open(ServerOptions options, bool with_model) {
  options.http.port = 0;
  options.http.threads = GetParam();
  if (options.service.model_names.empty()) options.service.model_names = {"k3-tiny", "kimi"};
  server_ = std::make_unique<Server>(options, [this](const std::string& line) {
    const std::lock_guard lock(mutex_);
    log_.push_back(line);
  });
  if (with_model) server_->open(generator_, tokenizer(), context_);
  thread_ = std::thread([this] { server_->run(); });
}

void ScriptedServer::stop() {
  if (!thread_.joinable()) return;
  server_->stop();
  server_->stop();
  thread_.join();
}

void ScriptedServer::TearDown() { stop(); }

std::vector<std::string> ScriptedServer::log() const {
  const std::lock_guard lock(mutex_);
  return log_;
}

}  // namespace nibble::serve
