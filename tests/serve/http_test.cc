// The socket side: what is no request is answered as such, what is late is ended, and answers come in order.
#include <atomic>
#include <random>
#include <thread>

#include "serve/scripted_server.h"

namespace nibble::serve {
namespace {

class Http : public ScriptedServer {};

TEST_P(Http, WhatIsNoRequestIsAnswered400AndTheConnectionEnds) {
  open();
  for (const std::string bad :
       {"rubbish\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET /health HTTP/1.1\r\nbad header\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nContent-Length: x\r\n\r\n", "\x16\x03\x01\x02\r\n\r\n"}) {
    Client client(port());
    client.send(bad);
    const Answer answer = client.answer();
    EXPECT_EQ(answer.status, 400) << bad;
    EXPECT_EQ(answer.json()["error"]["type"], "invalid_request_error");
    EXPECT_TRUE(client.closed());
  }
}

TEST_P(Http, LimitsOfHeadAndBody) {
  ServerOptions options;
  options.http.max_body = 1000;
  options.http.max_head = 2000;
  open(options);
  Client head(port());
  head.get("/health", "X-Long: " + std::string(4000, 'x') + "\r\n");
  EXPECT_EQ(head.answer().status, 431);

  // Field by field, each of them short: nothing grows while more may come. Behind the last chunk there is some room.
  for (const bool trailer : {false, true}) {
    Client dripping(port());
    dripping.send(trailer
                      ? "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
                      : "GET /health HTTP/1.1\r\nHost: localhost\r\n");
    for (int i = 0; i < (trailer ? 400 : 60); ++i) {
      dripping.send("A" + std::to_string(i) + ": " + std::string(60, 'x') + "\r\n");
    }
    EXPECT_EQ(dripping.answer().status, 431);
  }

  Client announced(port());  // refused before a byte of the body is there
  announced.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n");
  const Answer answer = announced.answer();
  EXPECT_EQ(answer.status, 413);
  EXPECT_EQ(answer.json()["error"]["code"], "request_too_large");

  Client chunked(port());
  chunked.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  chunked.send("800\r\n" + std::string(2048, ' ') + "\r\n");
  EXPECT_EQ(chunked.answer().status, 413);
}

TEST_P(Http, WhoIsSlowToSendIsTold408) {
  open(quick());
  Client head(port());
  head.send("GET /health HTTP/1.1\r\nHost:");
  EXPECT_EQ(head.answer().status, 408);
  Client body(port());
  body.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{");
  EXPECT_EQ(body.answer().status, 408);
  Client silent(port());
  EXPECT_TRUE(silent.closed());  // and nothing is said to one that said nothing
  Client idle(port());
  idle.get("/health");
  EXPECT_EQ(idle.answer().status, 200);
  EXPECT_TRUE(idle.closed());
}

TEST_P(Http, BytesOneByOneAndRequestsAllAtOnce) {
  open();
  Client client(port());
  for (const char c : std::string("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")) client.send({&c, 1});
  EXPECT_EQ(client.answer().status, 200);
  std::string many;
  for (int i = 0; i < 20; ++i) {
    many += "GET " + std::string(i % 2 ? "/health" : "/nowhere") + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  }
  client.send(many);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client.answer().status, i % 2 ? 200 : 404);
}

TEST_P(Http, PipelinedBehindAStreamIsAnsweredAfterIt) {
  open();
  Client client(port());
  client.post("/v1/chat/completions", chat(R"("stream":true)"));
  client.get("/health");
  const Engine::Id id = generator_.wait_for_request(1);
  client.head();
  generator_.give(id, ids("thought<|close|>think<|sep|><|open|>response<|sep|>yes<|end_of_msg|>"), FinishReason::kStop);
  EXPECT_EQ(gather(client).content, "yes");
  EXPECT_EQ(client.answer().status, 200);
}

TEST_P(Http, ExpectContinueIsAnswered) {
  open();
  Client client(port());
  const std::string body = R"({"content":"hi"})";
  client.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_EQ(client.answer(true).status, 100);
  client.send(body);
  EXPECT_EQ(client.answer().status, 200);
}

TEST_P(Http, OldClientsAndHead) {
  open();
  Client old(port());
  old.send("GET /health HTTP/1.0\r\n\r\n");
  const Answer answer = old.answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_TRUE(old.closed());

  Client stream(port());  // no chunks in HTTP/1.0
  const std::string body = chat(R"("stream":true)");
  stream.send("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
              body);
  generator_.give(generator_.wait_for_request(1), ids("<|close|>think<|sep|><|open|>response<|sep|>yes"),
                  FinishReason::kLength);
  const Answer head = stream.head();
  EXPECT_EQ(head.headers.count("transfer-encoding"), 0u);
  const Gathered got = gather(stream);
  EXPECT_EQ(got.content, "yes");
  EXPECT_TRUE(got.done);

  Client client(port());
  client.send("HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.answer(true).status, 200);
  client.get("/health");
  EXPECT_EQ(client.answer().body, R"({"status":"ok"})");  // nothing was left over of a body
}

TEST_P(Http, AClientThatGoesIsNoticedWithoutAWrite) {
  open();
  {
    Client streaming(port());
    streaming.post("/v1/chat/completions", chat(R"("stream":true)"));
    generator_.wait_for_request(1);
  }
  generator_.wait_for_cancel(1);
  {
    Client waiting(port());
    waiting.post("/v1/chat/completions", chat());
    generator_.wait_for_request(2);
  }
  generator_.wait_for_cancel(2);
  stop();
  int gone = 0;
  for (const std::string& line : log()) gone += line.find("\"status\":499") != line.npos ? 1 : 0;
  EXPECT_EQ(gone, 2);
}

TEST_P(Http, ASlowReaderIsCutOffOnceItsBufferIsFull) {
  ServerOptions options;
  options.http.max_unsent = 64 << 10;
  open(options);
  Client slow(port(), 4096);
  slow.post("/v1/chat/completions", chat(R"("stream":true)"));
  const Engine::Id id = generator_.wait_for_request(1);
  // Far more than socket buffers and ours can hold; nothing is read.
  const std::vector<int32_t> text = ids("<|close|>think<|sep|><|open|>response<|sep|>");
  generator_.give(id, text);
  for (int i = 0; i < 200'000 && !generator_.cancelled(id); ++i) generator_.give(id, ids(" words"));
  generator_.wait_for_cancel(id);
  Client other(port());  // nobody else notices
  other.get("/health");
  EXPECT_EQ(other.answer().status, 200);
}

TEST_P(Http, AReaderThatStopsIsTimedOut) {
  open(quick());
  Client slow(port(), 4096);
  slow.post("/v1/chat/completions", chat(R"("stream":true)"));
  const Engine::Id id = generator_.wait_for_request(1);
  std::string long_text;
  for (int i = 0; i < 40'000; ++i) long_text += " words and words";  // 640 kB: under the buffer's limit
  generator_.give(id, ids("<|close|>think<|sep|><|open|>response<|sep|>"));
  generator_.give(id, ids(long_text));
  generator_.wait_for_cancel(id);
}

TEST_P(Http, ConnectionsBeyondTheLimitAreClosed) {
  ServerOptions options;
  options.http.max_connections = 2;
  open(options);
  Client one(port()), two(port());
  one.get("/health");
  two.get("/health");
  EXPECT_EQ(one.answer().status, 200);
  EXPECT_EQ(two.answer().status, 200);
  Client three(port());
  EXPECT_TRUE(three.closed());
  one.get("/health");
  EXPECT_EQ(one.answer().status, 200);
}

// Four clients with twelve streams each, of which every fourth is left in the middle, and two who ask for other things
// all the while: each stream has its own tokens, in their order. Nothing is computed, so this is what the thread
// sanitizer is run on.
TEST_P(Http, ManyAtOnceEachGetsItsOwn) {
  constexpr int kClients = 4, kStreams = 12, kSteps = 30;
  open();
  std::atomic<bool> over = false;
  std::vector<std::thread> threads, others;
  for (int c = 0; c < kClients; ++c) {
    threads.emplace_back([this, c] {
      std::vector<Client> streams;
      for (int i = 0; i < kStreams; ++i) {
        const std::string seed = std::to_string(1000 + c * kStreams + i);
        streams.emplace_back(port());
        streams.back().post("/v1/chat/completions", chat(R"("stream":true,"seed":)" + seed));
      }
      for (int i = 0; i < kStreams; ++i) {
        Client& stream = streams[static_cast<size_t>(i)];
        EXPECT_EQ(stream.head().status, 200);
        if (i % 4 == 3) {
          stream.event();
          stream.shut();
          continue;
        }
        std::string want;
        for (int step = 0; step < kSteps; ++step) want += std::to_string(1000 + c * kStreams + i) + ",";
        EXPECT_EQ(gather(stream).content, want);
      }
    });
  }
  for (int i = 0; i < 2; ++i) {
    others.emplace_back([&] {
      while (!over) {
        EXPECT_EQ(get(port(), "/metrics").status, 200);
        EXPECT_EQ(post(port(), "/tokenize", R"({"prompt":"hi"})").status, 200);
      }
    });
  }
  constexpr size_t kAll = kClients * kStreams;
  generator_.wait_for_request(kAll);
  for (Engine::Id id = 1; id <= kAll; ++id) generator_.give(id, ids("<|close|>think<|sep|><|open|>response<|sep|>"));
  for (int step = 0; step < kSteps; ++step) {
    for (Engine::Id id = 1; id <= kAll; ++id) {
      generator_.give(id, ids(std::to_string(generator_.request(id).sampling.seed.value()) + ","),
                      step + 1 == kSteps ? FinishReason::kLength : FinishReason::kNone);
    }
  }
  for (std::thread& thread : threads) thread.join();
  over = true;
  for (std::thread& thread : others) thread.join();
  stop();
  EXPECT_EQ(server_->connections(), 0);
}

// Seeded damage to requests that are fine: whatever comes, nobody else is hurt, and what is answered is an answer.
TEST_P(Http, DamagedRequestsDoNoHarm) {
  open();
  std::mt19937_64 random(7);
  const std::string body = R"({"content":"hi"})";
  const std::vector<std::string> whole = {
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n" +
          body,
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n" + body + "\r\n0\r\n\r\n",
      "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"};
  for (int i = 0; i < 600; ++i) {
    std::string bytes = whole[random() % whole.size()];
    for (uint64_t n = random() % 4 + 1; n > 0; --n) {
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes.erase(at, random() % 8); break;
        case 2: bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 20)); break;
        default: bytes.insert(at, 1, "\r\n:\0 "[random() % 5]); break;
      }
    }
    Client client(port());
    client.send(bytes);
    client.send_end();
    const std::string said = client.rest();
    EXPECT_TRUE(said.empty() || said.starts_with("HTTP/1.1 ")) << said;
  }
  EXPECT_EQ(get(port(), "/health").status, 200);
}

TEST(HttpHead, ValuesCannotBreakTheHead) {
  const std::string head = response_head(200, "text/plain", {{"X-Request-Id", "a\r\nSet-Cookie: b"}}, 3, true, false);
  EXPECT_EQ(head.find("Set-Cookie"), head.npos);
  EXPECT_NE(head.find("Content-Length: 3\r\n"), head.npos);
}

TEST(HttpServer, RefusesAddressesPortsAndCertificates) {
  const auto refusal = [](HttpOptions http) {
    ServerOptions options{.http = std::move(http)};
    options.service.model_names = {"m"};
    try {
      const Server server(options, {});
    } catch (const Refusal& refused) {
      return std::string(refused.what());
    }
    return std::string("not refused");
  };
  HttpOptions none;
  none.port = 0;
  EXPECT_EQ(refusal(none), "not refused");
  HttpOptions elsewhere = none;
  elsewhere.host = "192.0.2.1";  // an address of nobody
  EXPECT_NE(refusal(elsewhere).find("--host 192.0.2.1"), std::string::npos);
  HttpOptions half = none;
  half.tls_cert = "cert.pem";
  EXPECT_NE(refusal(half).find("one without the other"), std::string::npos);
  HttpOptions missing = half;
  missing.tls_key = "key.pem";
  EXPECT_NE(refusal(missing).find("--tls-cert cert.pem"), std::string::npos);
}

NIBBLE_ON_ONE_AND_THREE_THREADS(Http);

}  // namespace
}  // namespace nibble::serve
