// A server on the bundled model.
#pragma once

#include <dirent.h>

#include "serve/scripted_server.h"

namespace nibble::serve {

class ModelServer : public ::testing::Test {
 protected:
  static constexpr int kAtOnce = 64;

  static void SetUpTestSuite() {
    EngineOptions options;
    options.model = NIBBLE_SOURCE_DIR "/models/k3-tiny";
    options.context = 1024;
    options.threads = 1;
    options.max_sequences = kAtOnce;
    generator = new EngineGenerator(options);
    tokenizer = new text::Tokenizer(text::Tokenizer::load(options.model, generator->engine().vocabulary()));
  }
  static void TearDownTestSuite() {
    delete tokenizer;
    delete generator;
  }

  void SetUp() override {
    ServerOptions options;
    options.http.port = 0;
    options.http.threads = http_threads();
    options.service.model_names = {"k3-tiny"};
    options.service.render.effort = std::nullopt;  // as the checkpoint's generation_config.json has it
    server_ = std::make_unique<Server>(options, Service::Log());
    server_->open(*generator, *tokenizer, generator->engine().context());
    thread_ = std::thread([this] { server_->run(); });
  }
  void TearDown() override {
    if (!thread_.joinable()) return;
    server_->stop();
    thread_.join();
  }

  virtual int http_threads() const { return 1; }

  static TestJson request(int number, int max_tokens) {
    const std::string question =
        number % 8 == 7 ? "hi!" : "Liam has " + std::to_string(number % 50) + " pens. He buys 3 more. How many pens?";
    return {{"messages", {{{"role", "user"}, {"content", question}}}},
            {"temperature", number % 2 == 0 ? 0.0 : 1.0},
            {"seed", number},
            {"max_tokens", max_tokens}};
  }
  static TestJson streamed(TestJson body) {
    body["stream"] = true;
    return body;
  }
  static int open_descriptors() {
    int count = 0;
    DIR* list = ::opendir("/proc/self/fd");
    while (::readdir(list) != nullptr) ++count;
    ::closedir(list);
    return count;
  }

  static inline EngineGenerator* generator = nullptr;
  static inline text::Tokenizer* tokenizer = nullptr;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

}  // namespace nibble::serve
