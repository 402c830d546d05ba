// The server on the bundled model: answers are the engine's, alone and among hundreds, with readers that are slow and
// readers that go.
#include <map>

#include "serve/model_server.h"
#include "testing/allocations.h"

namespace nibble::serve {
namespace {

class Load : public ModelServer {};

// The parameter is the number of threads that have connections.
class LoadOnThreads : public ModelServer, public ::testing::WithParamInterface<int> {
 protected:
  int http_threads() const override { return GetParam(); }
};

TEST_F(Load, AnswersFitTheirSchema) {
  for (const bool thinking : {true, false}) {
    TestJson body = request(1, 120);
    body["temperature"] = 0;
    body["chat_template_kwargs"] = {{"thinking", thinking}};
    body["response_format"] = TestJson::parse(
        R"({"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object","properties":{"pens":{"type":"integer"}},"required":["pens"]}}})");
    const Answer answer = post(server_->port(), "/v1/chat/completions", body.dump());
    ASSERT_EQ(answer.status, 200) << answer.body;
    const TestJson choice = answer.json()["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "stop") << choice;
    EXPECT_TRUE(TestJson::parse(choice["message"]["content"].get<std::string>())["pens"].is_number_integer());
    EXPECT_EQ(choice["message"].contains("reasoning_content"), thinking);
  }
  TestJson bad = request(1, 5);
  bad["response_format"] = TestJson::parse(R"({"type":"json_schema","json_schema":{"name":"a","schema":{"not":{}}}})");
  EXPECT_EQ(post(server_->port(), "/v1/chat/completions", bad.dump()).status, 400);
}

TEST_F(Load, ACompletionsLogprobsAreThoseOfItsTokens) {
  const TestJson body = {
      {"prompt", "Liam has"}, {"temperature", 0}, {"max_tokens", 4}, {"logprobs", 2}, {"echo", true}};
  const TestJson c = post(server_->port(), "/v1/completions", body.dump()).json()["choices"][0];
  const TestJson& l = c["logprobs"];
  EXPECT_EQ(l["tokens"].size(), tokenizer->encode("Liam has").size() + 4);
  EXPECT_TRUE(l["token_logprobs"][0].is_null());
  std::string joined;
  for (const TestJson& token : l["tokens"]) joined += token.get<std::string>();
  EXPECT_EQ(joined, c["text"].get<std::string>());
  EXPECT_EQ(l["top_logprobs"][1].size(), 2u);
  TestJson none = body;
  none["max_tokens"] = 0;
  const TestJson prompt_only = post(server_->port(), "/v1/completions", none.dump()).json()["choices"][0];
  EXPECT_EQ(prompt_only["text"], "Liam has");
  EXPECT_EQ(prompt_only["logprobs"]["token_logprobs"],
            TestJson(std::vector<TestJson>(l["token_logprobs"].begin(), l["token_logprobs"].end() - 4)));
}

// 256 at once on 64 places: every tenth reads slowly, every tenth goes in the middle; the others get what they get
// alone. Then once more, and again: what the first rounds have taken is all that there is.
class ManyStreams : public LoadOnThreads {
 protected:
  static constexpr int kStreams = 256, kQuestions = 8, kTokens = 8;

  void round(const std::map<int, std::string>& alone) {
    std::vector<Client> clients;
    for (int i = 0; i < kStreams; ++i) {
      clients.emplace_back(server_->port(), i % 10 == 3 ? 2048 : 0);
      clients.back().post("/v1/chat/completions", streamed(request(i % kQuestions, kTokens)).dump());
    }
    for (int i = 0; i < kStreams; ++i) {
      if (i % 10 != 7) continue;
      EXPECT_EQ(clients[static_cast<size_t>(i)].head().status, 200);
      clients[static_cast<size_t>(i)].event();
      clients[static_cast<size_t>(i)].shut();
    }
    // Slow ones are read last, when all others have ended.
    for (const bool slow : {false, true}) {
      for (int i = 0; i < kStreams; ++i) {
        if (i % 10 == 7 || (i % 10 == 3) != slow) continue;
        Client& client = clients[static_cast<size_t>(i)];
        EXPECT_EQ(client.head().status, 200);
        const Gathered got = gather(client);
        EXPECT_TRUE(got.done) << i;
        EXPECT_EQ(got.reasoning + "|" + got.content, alone.at(i % kQuestions)) << i;
      }
    }
  }
  // The server has noticed all that went: a request of its own comes after them.
  void wait_until_idle() const {
    while (get(server_->port(), "/metrics").body.find("nibble:connections{engine=\"0\",model_name=\"k3-tiny\"} 1\n") ==
           std::string::npos) {
    }
    while (generator->stats().running + generator->stats().waiting > 0) std::this_thread::yield();
  }
};

TEST_P(ManyStreams, SomeSlowSomeGone) {
  constexpr int kRounds = 4, kWarm = 1;
  // Bytes that stay once all streams have come at the same moment, which a later round may be the first to see: the two
  // buffers of the engine's mailbox, and what each thread's Asio keeps for a socket. It is about half a kilobyte, at
  // three threads two thirds, for each stream of the later rounds.
  const int64_t slack = kStreams * (2 * 360 + http_threads() * 200);
  std::map<int, std::string> alone;
  for (int q = 0; q < kQuestions; ++q) {
    const TestJson message =
        post(server_->port(), "/v1/chat/completions", request(q, kTokens).dump()).json()["choices"][0]["message"];
    alone[q] = message.value("reasoning_content", "") + "|" + message["content"].get<std::string>();
  }
  const int descriptors = open_descriptors();
  int64_t warm = 0;
  for (int i = 0; i < kRounds; ++i) {
    round(alone);
    wait_until_idle();
    if (i + 1 == kWarm) warm = testing::allocated_bytes();
  }
  EXPECT_LE(testing::allocated_bytes(), warm + slack);
  EXPECT_LE(open_descriptors(), descriptors + 1);  // the connection of the last look
  const EngineStats stats = generator->stats();
  EXPECT_EQ(stats.slots_free, stats.slots_total);
  EXPECT_EQ(stats.pages_free, stats.pages_total);
}

TEST_P(LoadOnThreads, StoppingUnderLoadLosesNoAnswer) {
  constexpr int kStreams = 64;
  std::vector<Client> clients;
  for (int i = 0; i < kStreams; ++i) {
    clients.emplace_back(server_->port());
    const TestJson body = request(i, 16);
    clients.back().post("/v1/chat/completions", (i % 2 == 0 ? streamed(body) : body).dump());
  }
  EXPECT_EQ(clients[0].head().status, 200);
  clients[0].event();
  server_->stop();
  int answered = 0, refused = 0;
  for (int i = 0; i < kStreams; ++i) {
    Client& client = clients[static_cast<size_t>(i)];
    if (i % 2 == 0) {
      const int status = i == 0 ? 200 : client.head().status;
      if (status == 200) {
        const Gathered got = gather(client);
        EXPECT_TRUE(got.finish_reason == "stop" || got.finish_reason == "length") << i << got.error;
        EXPECT_TRUE(got.done);
        ++answered;
      } else {
        EXPECT_EQ(status, 503);
        ++refused;
      }
    } else {
      const Answer answer = client.answer();
      EXPECT_TRUE(answer.status == 200 || answer.status == 503) << answer.body;
      answer.status == 200 ? ++answered : ++refused;
      EXPECT_TRUE(answer.json().contains(answer.status == 200 ? "choices" : "error"));
    }
  }
  EXPECT_EQ(answered + refused, kStreams);
  EXPECT_GT(answered, 0);
  thread_.join();
}

NIBBLE_ON_ONE_AND_THREE_THREADS(ManyStreams);
NIBBLE_ON_ONE_AND_THREE_THREADS(LoadOnThreads);

}  // namespace
}  // namespace nibble::serve
