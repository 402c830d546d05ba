// Several threads: each connection has one, and all of them share the connections.
#include "serve/http_server.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <thread>

#include "serve/client.h"

namespace nibble::serve {
namespace {

// Answers with its number; knows if it is ever called on another thread than before.
class Numbered final : public HttpHandler {
 public:
  explicit Numbered(int number) : number_(number) {}
  std::optional<HttpResponse> check(const HttpRequest& head) override {
    if (thread_ == std::thread::id()) thread_ = std::this_thread::get_id();
    if (thread_ != std::this_thread::get_id()) return HttpResponse{.status = 500, .headers = {}};
    if (head.path == "/throw") throw std::runtime_error("thrown by " + std::to_string(number_));
    return {};
  }
  void handle(HttpRequest, std::shared_ptr<HttpReply> reply) override {
    reply->send({.body = std::to_string(number_), .headers = {}});
  }
  HttpResponse malformed(int status, std::string_view, std::string_view) override {
    return {.status = status, .headers = {}};
  }

 private:
  int number_;
  std::thread::id thread_;
};

HttpOptions three_threads() {
  HttpOptions options;
  options.port = 0;
  options.threads = 3;
  return options;
}

class HttpServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    thread_ = std::thread([this] {
      try {
        server_.run({&first_, &second_, &third_});
      } catch (const std::exception& e) {
        failure_ = e.what();
      }
    });
  }
  void TearDown() override { join(); }
  void join() {
    if (!thread_.joinable()) return;
    server_.close(std::chrono::milliseconds(100));
    thread_.join();
  }
  static std::string ask(Client& client) {
    client.get("/who");
    const Answer answer = client.answer();
    EXPECT_EQ(answer.status, 200);
    return answer.body;
  }

  Numbered first_{0}, second_{1}, third_{2};
  HttpServer server_{three_threads()};
  std::string failure_;  // of run()
  std::thread thread_;
};

TEST_F(HttpServerTest, AConnectionGoesWhereThereAreFewestAndStays) {
  std::map<std::string, std::vector<Client>> of;  // by what answers them
  const auto connect = [&](int count) {
    for (int i = 0; i < count; ++i) {
      Client client(server_.port());
      const std::string number = ask(client);
      of[number].push_back(std::move(client));
    }
  };
  connect(9);
  ASSERT_EQ(of.size(), 3u);
  for (auto& [number, clients] : of) {
    EXPECT_EQ(clients.size(), 3u);
    for (Client& client : clients) EXPECT_EQ(ask(client), number);
  }
  of["1"].clear();
  while (server_.connections() != 6) std::this_thread::yield();
  connect(4);  // where the first of them goes had been decided before
  EXPECT_GE(of["1"].size(), 3u);
  for (auto& [number, clients] : of) {
    for (Client& client : clients) EXPECT_EQ(ask(client), number);
  }
}

TEST_F(HttpServerTest, WhatAThreadThrowsEndsAllAndIsThrownByRun) {
  Client zero(server_.port()), one(server_.port());
  EXPECT_EQ(ask(zero), "0");
  EXPECT_EQ(ask(one), "1");
  one.get("/throw");
  thread_.join();
  EXPECT_EQ(failure_, "thrown by 1");
}

TEST(HttpThreads, OneForFourProcessors) {
  const std::map<int64_t, int64_t> want = {{0, 1}, {1, 1}, {2, 1}, {7, 1}, {8, 2}, {12, 3}, {16, 4}, {256, 4}};
  for (const auto& [processors, threads] : want) EXPECT_EQ(default_http_threads(processors), threads) << processors;
}

}  // namespace
}  // namespace nibble::serve
