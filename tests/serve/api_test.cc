// What surrounds the answers: paths, keys, wrong fields, queues, the end of the server.
#include "serve/keys.h"
#include "serve/scripted_server.h"

namespace nibble::serve {
namespace {

class Api : public ScriptedServer {
 protected:
  void expect_refused(const std::string& path, const std::string& body, const std::string& param,
                      const std::string& part, int status = 400) {
    const Answer answer = post(port(), path, body);
    EXPECT_EQ(answer.status, status) << body;
    const TestJson error = answer.json()["error"];
    if (!param.empty()) {
      EXPECT_EQ(error["param"], param) << body;
    }
    EXPECT_NE(error["message"].get<std::string>().find(part), std::string::npos) << error;
  }
};

TEST_P(Api, PathsAndMethods) {
  open();
  for (const std::string path : {"/health", "/v1/health", "/ping", "/ready", "/v1/models", "/models", "/v1/models/kimi",
                                 "/v1/models/", "/version", "/metrics", "/", "/app.js", "/style.css", "/health?x=1"}) {
    EXPECT_EQ(get(port(), path).status, 200) << path;
  }
  EXPECT_EQ(get(port(), "/v1/embeddings").status, 404);
  EXPECT_EQ(get(port(), "/v1/models/kimi-k3[1m]").json()["error"]["code"], "model_not_found");
  const Answer wrong = get(port(), "/v1/chat/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "POST");
  const TestJson models = get(port(), "/v1/models").json();
  EXPECT_EQ(models["data"][0]["id"], "k3-tiny");
  EXPECT_EQ(models["data"][1]["max_model_len"], 4096);
}

TEST_P(Api, AnswersCarryTheRequestsName) {
  open();
  EXPECT_EQ(get(port(), "/health", "X-Request-Id: mine\r\n").headers.at("x-request-id"), "mine");
  EXPECT_NE(get(port(), "/health", "X-Request-Id: two words\r\n").headers.at("x-request-id"), "two words");
  EXPECT_EQ(get(port(), "/none", "X-Request-Id: mine\r\n").headers.at("x-request-id"), "mine");
}

TEST_P(Api, KeysGuardAllButWhatProbesNeed) {
  ServerOptions options;
  options.service.api_keys = {"first", "second"};
  open(options);
  for (const std::string path : {"/v1/models", "/metrics", "/version"}) {
    const Answer none = get(port(), path);
    EXPECT_EQ(none.status, 401) << path;
    EXPECT_EQ(none.headers.at("www-authenticate"), "Bearer");
    EXPECT_EQ(none.json()["error"]["code"], "invalid_api_key");
    EXPECT_EQ(get(port(), path, "Authorization: Bearer firs\r\n").status, 401);
    EXPECT_EQ(get(port(), path, "Authorization: Bearer second\r\n").status, 200);
    EXPECT_EQ(get(port(), path, "x-api-key: first\r\n").status, 200);
  }
  EXPECT_EQ(get(port(), "/health").status, 200);
  EXPECT_EQ(get(port(), "/").status, 200);
  // Refused before the body is read: a stranger cannot fill memory.
  Client stranger(port());
  stranger.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000000\r\n\r\n");
  EXPECT_EQ(stranger.answer().status, 401);
}

TEST(Keys, CompareWhole) {
  EXPECT_TRUE(is_one_of("b", {"a", "b"}));
  EXPECT_FALSE(is_one_of("", {"a"}));
  EXPECT_FALSE(is_one_of("", {""}));
  EXPECT_FALSE(is_one_of("aa", {"a"}));
}

TEST(Keys, NamesThatSomebodyElseCouldPointHere) {
  for (const std::string fine : {"127.0.0.1:8000", "localhost", "LOCAL.localhost", "[::1]:80", "192.168.1.2", ""}) {
    EXPECT_TRUE(names_an_address(fine)) << fine;
  }
  for (const std::string bad : {"evil.example", "127.0.0.1.evil.example:8000", "localhost.evil.example"}) {
    EXPECT_FALSE(names_an_address(bad)) << bad;
  }
}

TEST_P(Api, OtherSitesStayOut) {
  open();
  Client rebound(port());
  rebound.send("GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  EXPECT_EQ(rebound.answer().status, 403);
  EXPECT_EQ(get(port(), "/v1/models", "Origin: http://evil.example\r\n").headers.count("access-control-allow-origin"),
            0u);
  const auto posted = [&](const std::string& headers) {
    Client client(port());
    client.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\n" + headers +
                "Content-Length: 15\r\n\r\n{\"prompt\":\"hi\"}");
    return client.answer().status;
  };
  // What a page may send to another site without asking first.
  EXPECT_EQ(posted("Content-Type: text/plain\r\n"), 415);
  EXPECT_EQ(posted("Content-Type: text/plain; a=json\r\n"), 415);
  EXPECT_EQ(posted("Origin: http://evil.example\r\n"), 403);
  EXPECT_EQ(posted("Origin: null\r\n"), 403);
  EXPECT_EQ(posted("Origin: http://localhost\r\n"), 200);
  EXPECT_EQ(posted("Content-Type: application/json; charset=utf-8\r\n"), 200);
  stop();
  ServerOptions options;
  options.service.cors_origin = "https://friend.example";
  open(options);
  Client asking(port());
  asking.send("OPTIONS /v1/completions HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const Answer answer = asking.answer();
  EXPECT_EQ(answer.status, 204);
  EXPECT_EQ(answer.headers.at("access-control-allow-origin"), "https://friend.example");
  EXPECT_EQ(posted("Origin: https://friend.example\r\n"), 200);
}

TEST_P(Api, ThePageAllowsNothingFromElsewhere) {
  open();
  const Answer page = get(port(), "/");
  const std::string policy = page.headers.at("content-security-policy");
  EXPECT_NE(policy.find("default-src 'none'"), policy.npos);
  EXPECT_EQ(policy.find("unsafe"), policy.npos);
  for (const std::string path : {"/", "/app.js", "/style.css", "/markdown.js", "/status.js"}) {
    const std::string body = get(port(), path).body;
    EXPECT_EQ(body.find("http://"), body.npos) << path;
    EXPECT_EQ(body.find("https://"), body.npos) << path;
    EXPECT_EQ(body.find("innerHTML"), body.npos) << path;
  }
}

TEST_P(Api, WrongFieldsAreNamed) {
  context_ = 64;
  open();
  const std::string path = "/v1/chat/completions";
  expect_refused(path, "{", "", "not JSON");
  expect_refused(path, "[]", "", "it is an object");
  expect_refused(path, R"({"messages":[]})", "messages", "an empty list");
  expect_refused(path, R"({"messages":[{"role":"robot","content":"x"}]})", "messages[0].role", "robot");
  expect_refused(path, R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:"}}]}]})",
                 "messages[0].content[0]", "no vision tower");
  expect_refused(path, chat(R"("model":"kimi[1m]")"), "model", "does not exist", 404);
  expect_refused(path, chat(R"("temperature":2.5)"), "temperature", "from 0 to 2");
  expect_refused(path, chat(R"("temperature":"hot")"), "temperature", "a number");
  expect_refused(path, chat(R"("max_tokens":0)"), "max_tokens", "from 1");
  expect_refused(path, chat(R"("max_tokens":1.5)"), "max_tokens", "whole number");
  expect_refused(path, chat(R"("max_tokens":18446744073709551615)"), "max_tokens", "whole number");
  expect_refused(path, chat(R"("n":65)"), "n", "from 1 to 64");
  expect_refused(path, chat(R"("stop":5)"), "stop", "a string or a list");
  expect_refused(path, chat(R"("stream":"yes")"), "stream", "true or false");
  expect_refused(path, chat(R"("stream_options":[])"), "stream_options", "an object");
  expect_refused(path, chat(R"("top_logprobs":2)"), "top_logprobs", "logprobs: true");
  expect_refused(path, chat(R"("logprobs":true,"top_logprobs":21)"), "top_logprobs", "from 0 to 20");
  expect_refused(path, chat(R"("logit_bias":{"x":1})"), "logit_bias", "ids from 0 to 2047");
  expect_refused(path, chat(R"("logit_bias":{"2048":1})"), "logit_bias", "ids from 0 to 2047");
  expect_refused(path, chat(R"("min_tokens":5,"max_tokens":4)"), "min_tokens", "at most max_tokens");
  expect_refused(path, chat(R"("tool_choice":"required")"), "tool_choice", "");
  expect_refused(path, chat(R"("stop_token_ids":[-1])"), "stop_token_ids", "a token id");
  expect_refused("/v1/completions", R"({"prompt":"a","suffix":"b"})", "suffix", "not supported");
  expect_refused("/v1/completions", R"({})", "prompt", "it is a string");
  expect_refused("/v1/completions", R"({"prompt":""})", "prompt", "no tokens");
  expect_refused("/v1/completions", R"({"prompt":[5000]})", "prompt", "ids of this model");
  expect_refused("/v1/completions", R"({"prompt":[[1],[-5]]})", "prompt", "token id");
  expect_refused("/v1/completions", "{\"prompt\":\"\xFF\"}", "", "not JSON");
  expect_refused("/detokenize", R"({"tokens":[9999]})", "tokens", "ids of this model");
  expect_refused("/tokenize", R"({})", "prompt", "is needed");

  const Answer longer = post(port(), path, chat("", std::string(400, 'x') + " y"));
  EXPECT_EQ(longer.status, 400);
  EXPECT_EQ(longer.json()["error"]["code"], "context_length_exceeded");
  EXPECT_NE(longer.json()["error"]["message"].get<std::string>().find("maximum context length"), std::string::npos);
}

TEST_P(Api, UnknownFieldsAreIgnored) {
  open();
  Client client(port());
  client.post("/v1/chat/completions", chat(R"("metadata":{"a":1},"user":"me","store":true,"future_field":[1,2])"));
  generator_.give(generator_.wait_for_request(1), ids("x"), FinishReason::kLength);
  EXPECT_EQ(client.answer().status, 200);
}

TEST_P(Api, ParametersReachTheEngine) {
  open();
  Client client(port());
  client.post("/v1/chat/completions",
              chat(R"("temperature":0.5,"top_p":0.9,"top_k":-1,"min_p":0.1,"seed":-3,"max_tokens":9,)"
                   R"("max_completion_tokens":7,"frequency_penalty":1,"presence_penalty":-1,"repetition_penalty":1.1,)"
                   R"("logit_bias":{"5":-100},"ignore_eos":true,"min_tokens":2,"stop_token_ids":[4],"n":3)"));
  const Request& r = generator_.request(generator_.wait_for_request(1));
  EXPECT_FLOAT_EQ(r.sampling.temperature, 0.5f);
  EXPECT_FLOAT_EQ(r.sampling.top_p, 0.9f);
  EXPECT_EQ(r.sampling.top_k, 0);
  EXPECT_FLOAT_EQ(r.sampling.min_p, 0.1f);
  EXPECT_EQ(r.sampling.seed, static_cast<uint64_t>(-3));
  EXPECT_EQ(r.max_tokens, 7);
  EXPECT_EQ(r.min_tokens, 2);
  EXPECT_FLOAT_EQ(r.sampling.frequency_penalty, 1);
  EXPECT_FLOAT_EQ(r.sampling.presence_penalty, -1);
  EXPECT_FLOAT_EQ(r.sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(r.sampling.logit_bias.at(0).first, 5);
  EXPECT_TRUE(r.ignore_eos);
  EXPECT_EQ(r.stop_ids, std::vector<int32_t>{4});
  EXPECT_EQ(r.choices, 3);
}

TEST_P(Api, ConstraintsReachTheEngine) {
  open();
  auto constraint = [&, number = size_t{0}](const std::string& more) mutable {
    Client client(port());
    client.post("/v1/chat/completions", chat(more));
    const Engine::Id id = generator_.wait_for_request(++number);
    generator_.give(id, ids("x"), FinishReason::kLength);
    EXPECT_EQ(client.answer().status, 200) << more;
    return std::pair(generator_.request(id).constraint.kind, generator_.request(id).constraint.text);
  };
  using Kind = Constraint::Kind;
  const std::string schema = R"({"type":"object"})";
  EXPECT_EQ(constraint(R"("response_format":{"type":"text"})"), std::pair(Kind::kNone, std::string()));
  EXPECT_EQ(constraint(R"("response_format":{"type":"json_object"})"), std::pair(Kind::kJson, std::string()));
  EXPECT_EQ(
      constraint(R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":)" + schema + "}}"),
      std::pair(Kind::kJsonSchema, schema));
  EXPECT_EQ(constraint(R"("guided_json":)" + schema), std::pair(Kind::kJsonSchema, schema));
  EXPECT_EQ(constraint(R"("structured_outputs":{"regex":"a+"})"), std::pair(Kind::kRegex, std::string("a+")));
  EXPECT_EQ(constraint(R"("guided_choice":["a.b","c"])"), std::pair(Kind::kRegex, std::string("a\\.b|c")));
  expect_refused("/v1/chat/completions", chat(R"("guided_regex":"a","guided_choice":["b"])"), "structured_outputs",
                 "one constraint");
  expect_refused("/v1/chat/completions", chat(R"("guided_regex":"a","response_format":{"type":"json_object"})"),
                 "response_format", "another constraint");
  expect_refused("/v1/chat/completions", chat(R"("grammar":"root ::= x")"), "grammar", "not supported");
}

TEST_P(Api, TokenizeBothWays) {
  open();
  const std::vector<int32_t> hi = tokenizer().encode("hi");
  EXPECT_EQ(post(port(), "/tokenize", R"({"prompt":"hi"})").json()["tokens"].get<std::vector<int32_t>>(), hi);
  EXPECT_EQ(post(port(), "/tokenize", R"({"prompt":""})").json()["count"], 0);  // no [BOS]
  EXPECT_EQ(post(port(), "/tokenize", R"({"content":"hi"})").json(), (TestJson{{"tokens", hi}}));
  EXPECT_EQ(
      post(port(), "/tokenize", R"({"content":"\u4e2d","with_pieces":true})").json()["tokens"][0].contains("piece"),
      true);
  const TestJson chat_tokens = post(port(), "/tokenize", chat()).json();
  EXPECT_GT(chat_tokens["count"], 10);
  EXPECT_EQ(post(port(), "/tokenize", R"({"prompt":"[EOS]"})").json()["count"], tokenizer().encode("[EOS]").size());
  EXPECT_EQ(post(port(), "/tokenize", R"({"prompt":"[EOS]","parse_special":true})").json()["count"], 1);
  const TestJson back = post(port(), "/detokenize", TestJson{{"tokens", hi}}.dump()).json();
  EXPECT_EQ(back["prompt"], "hi");
  EXPECT_EQ(back["content"], "hi");
}

TEST_P(Api, ThePromptOfACompletionIsWhatWasTyped) {
  open();
  Client client(port());
  client.post("/v1/completions", R"({"prompt":["<|open|>hi",[1,2]],"n":2,"echo":true})");
  const Engine::Id first = generator_.wait_for_request(1), second = generator_.wait_for_request(2);
  EXPECT_EQ(generator_.request(first).prompt, tokenizer().encode("<|open|>hi"));
  EXPECT_EQ(generator_.request(second).prompt, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(generator_.request(first).max_tokens, 16);
  for (const Engine::Id id : {second, first}) {
    for (int32_t choice = 0; choice < 2; ++choice) {
      Output output{.choice = choice, .tokens = {5}, .text = id == first ? "a" : "b", .finish = FinishReason::kStop};
      output.text += std::to_string(choice);
      generator_.give(id, output);
    }
  }
  const TestJson choices = client.answer().json()["choices"];
  ASSERT_EQ(choices.size(), 4u);
  EXPECT_EQ(choices[0]["text"], "<|open|>hia0");
  EXPECT_EQ(choices[1]["text"], "<|open|>hia1");
  EXPECT_TRUE(choices[3]["text"].get<std::string>().ends_with("b1"));
}

TEST_P(Api, AFullQueueIsSaid) {
  ServerOptions options;
  options.service.max_sequences = 1;
  options.service.max_waiting = 1;
  open(options);
  expect_refused("/v1/chat/completions", chat(R"("n":3)"), "n", "at most 2 can wait");
  Client one(port()), two(port());
  one.post("/v1/chat/completions", chat());
  generator_.wait_for_request(1);
  two.post("/v1/chat/completions", chat());
  generator_.wait_for_request(2);
  const Answer third = post(port(), "/v1/chat/completions", chat());
  EXPECT_EQ(third.status, 429);
  EXPECT_EQ(third.headers.at("retry-after"), "1");
  EXPECT_EQ(third.json()["error"]["type"], "rate_limit_error");
  EXPECT_NE(get(port(), "/metrics").body.find("vllm:admission_rejections_total{engine=\"0\",model_name=\"k3-tiny\"} 1"),
            std::string::npos);
  generator_.give(1, ids("x"), FinishReason::kLength);
  EXPECT_EQ(one.answer().status, 200);
  Client fourth(port());
  fourth.post("/v1/chat/completions", chat());
  generator_.give(generator_.wait_for_request(3), ids("x"), FinishReason::kLength);
  EXPECT_EQ(fourth.answer().status, 200);
}

TEST_P(Api, BeforeTheModelIsThere) {
  open({}, /*with_model=*/false);
  for (const std::string path : {"/health", "/ready", "/v1/models"}) {
    const Answer answer = get(port(), path);
    EXPECT_EQ(answer.status, 503) << path;
    EXPECT_EQ(answer.json()["error"]["code"], "loading");
    EXPECT_GT(std::stoi(answer.headers.at("retry-after")), 0);
  }
  server_->open(generator_, tokenizer(), 4096);
  Client client(port());
  client.get("/metrics");
  EXPECT_EQ(client.answer().status, 200);
  client.get("/health");
  EXPECT_EQ(client.answer().status, 200);
}

TEST_P(Api, StoppingLetsAnswersEnd) {
  open();
  Client streaming(port()), waiting(port()), idle(port());
  idle.get("/health");
  EXPECT_EQ(idle.answer().status, 200);
  streaming.post("/v1/chat/completions", chat(R"("stream":true)"));
  generator_.wait_for_request(1);
  waiting.post("/v1/chat/completions", chat());
  generator_.wait_for_request(2);
  Client late(port());
  late.get("/health");
  EXPECT_EQ(late.answer().status, 200);
  server_->stop();
  late.post("/v1/chat/completions", chat());
  const Answer refused = late.answer();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.json()["error"]["code"], "draining");
  EXPECT_TRUE(late.closed());  // its body was not read
  EXPECT_EQ(get(port(), "/ready").status, 503);
  EXPECT_EQ(get(port(), "/health").status, 200);
  generator_.give(1, ids("hm"), FinishReason::kLength);
  generator_.give(2, ids("hm"), FinishReason::kLength);
  streaming.head();
  EXPECT_EQ(gather(streaming).finish_reason, "length");
  EXPECT_EQ(waiting.answer().status, 200);
  EXPECT_TRUE(idle.closed());
}

TEST_P(Api, WhatDoesNotEndInTimeIsToldWhy) {
  ServerOptions options = quick();
  options.http = {};
  open(options);
  Client streaming(port()), waiting(port());
  streaming.post("/v1/chat/completions", chat(R"("stream":true)"));
  generator_.wait_for_request(1);
  waiting.post("/v1/chat/completions", chat());
  generator_.wait_for_request(2);
  server_->stop();
  streaming.head();
  const Gathered got = gather(streaming);
  EXPECT_NE(got.error.find("shutting down"), std::string::npos);
  EXPECT_TRUE(got.done);
  const Answer answer = waiting.answer();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.json()["error"]["code"], "draining");
  EXPECT_TRUE(generator_.cancelled(1) && generator_.cancelled(2));
}

TEST_P(Api, TheLogHasALineForEachRequestAndNoMore) {
  open();
  Client client(port());
  client.send("GET /health?key=secret HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: r1\r\n\r\n");
  EXPECT_EQ(client.answer().status, 200);
  client.send("GET /\x01\xFF\"x HTTP/1.1\r\nHost: localhost\r\n\r\n");
  client.answer();
  stop();
  const std::vector<std::string> lines = log();
  ASSERT_EQ(lines.size(), 2u);
  const TestJson first = TestJson::parse(lines[0]);
  EXPECT_EQ(first["path"], "/health");
  EXPECT_EQ(first["id"], "r1");
  EXPECT_EQ(first["status"], 200);
  EXPECT_TRUE(TestJson::accept(lines[1]));  // whatever a client sends, a line is JSON
}

NIBBLE_ON_ONE_AND_THREE_THREADS(Api);

}  // namespace
}  // namespace nibble::serve
