// A server whose tokens come from the test: nothing is computed, so nothing has to be waited for but what is tested.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "serve/client.h"
#include "serve/server.h"
#include "text/tokenizer.h"

namespace nibble::serve {

class ScriptedGenerator final : public Generator {
 public:
  Engine::Id submit(Request request, Engine::Callback callback) override;
  void cancel(Engine::Id id) override;
  EngineStats stats() const override { return {.pages_total = 4, .pages_free = 3}; }

  // Both wait, for at most a minute.
  Engine::Id wait_for_request(size_t number);  // from 1
  void wait_for_cancel(Engine::Id id);
  bool cancelled(Engine::Id id) const;
  const Request& request(Engine::Id id) const;

  void give(Engine::Id id, const Output& output);
  void give(Engine::Id id, std::vector<int32_t> tokens, FinishReason finish = FinishReason::kNone);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Engine::Id, std::pair<Request, Engine::Callback>> requests_;
  std::map<Engine::Id, bool> cancelled_;
};

// The parameter is the number of threads that have connections.
class ScriptedServer : public ::testing::TestWithParam<int> {
 protected:
  void TearDown() override;
  void open(ServerOptions options = {}, bool with_model = true);
  void stop();

  static const text::Tokenizer& tokenizer();
  static ServerOptions quick();  // time-outs of a moment
  // The ids of text with control names in it.
  static std::vector<int32_t> ids(const std::string& text) { return tokenizer().encode_with_control(text); }
  static std::string chat(const std::string& more = "", const std::string& content = "hi") {
    return R"({"messages":[{"role":"user","content":)" + TestJson(content).dump() + "}]" +
           (more.empty() ? "" : "," + more) + "}";
  }
  std::vector<std::string> log() const;  // once stopped, all of it
  uint16_t port() const { return server_->port(); }

  ScriptedGenerator generator_;
  std::unique_ptr<Server> server_;
  int64_t context_ = 4096;

 private:
  std::thread thread_;
  mutable std::mutex mutex_;
  std::vector<std::string> log_;
};

#define NIBBLE_ON_ONE_AND_THREE_THREADS(suite) \
  INSTANTIATE_TEST_SUITE_P(Threads, suite, ::testing::Values(1, 3), ::testing::PrintToStringParamName())

}  // namespace nibble::serve
