// /v1/responses over a scripted model.
#include "serve/scripted_server.h"

namespace nibble::serve {
namespace {

class Responses : public ScriptedServer {
 protected:
  void SetUp() override { open(); }
  TestJson whole(const std::string& body, const std::vector<int32_t>& tokens, FinishReason finish) {
    Client client(port());
    client.post("/v1/responses", body);
    generator_.give(generator_.wait_for_request(++requests_), tokens, finish);
    const Answer answer = client.answer();
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json();
  }
  static void without_ids(TestJson& response) {
    for (const char* name : {"id", "created_at"}) response.erase(name);
    for (TestJson& item : response["output"]) {
      item.erase("id");
      item.erase("call_id");
    }
  }
  size_t requests_ = 0;
};

const char* kTokens =
    "hm<|close|>think<|sep|><|open|>response<|sep|>hello<|close|>response<|sep|><|open|>tools<|sep|>"
    "<|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"city\" type=\"string\"<|sep|>SF<|close|>"
    "argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>";

TEST_P(Responses, WholeAndStreamedAreEqual) {
  TestJson response = whole(R"({"input":"hi","instructions":"Be brief."})", ids(kTokens), FinishReason::kStop);
  EXPECT_EQ(response["status"], "completed");
  ASSERT_EQ(response["output"].size(), 3u);
  EXPECT_EQ(response["output"][0]["content"][0]["text"], "hm");
  EXPECT_EQ(response["output"][1]["content"][0]["text"], "hello");
  EXPECT_EQ(response["output"][2]["arguments"], R"({"city": "SF"})");
  EXPECT_EQ(response["instructions"], "Be brief.");

  Client client(port());
  client.post("/v1/responses", R"({"input":"hi","instructions":"Be brief.","stream":true})");
  const Engine::Id id = generator_.wait_for_request(++requests_);
  const std::vector<int32_t> tokens = ids(kTokens);
  for (size_t i = 0; i < tokens.size(); ++i) {
    generator_.give(id, {tokens[i]}, i + 1 == tokens.size() ? FinishReason::kStop : FinishReason::kNone);
  }
  client.head();
  TestJson last;
  std::string text, arguments;
  int64_t sequence = 0;
  while (const auto raw = client.event()) {
    const TestJson e = TestJson::parse(raw->substr(raw->find("\ndata: ") + 7));
    EXPECT_EQ(e["sequence_number"], sequence++);
    if (e["type"] == "response.output_text.delta") text += e["delta"].get<std::string>();
    if (e["type"] == "response.function_call_arguments.delta") arguments += e["delta"].get<std::string>();
    if (e["type"] == "response.output_text.done") {
      EXPECT_EQ(e["text"], text);
    }
    last = e;
  }
  EXPECT_EQ(last["type"], "response.completed");
  EXPECT_EQ(text, "hello");
  EXPECT_EQ(arguments, R"({"city": "SF"})");
  TestJson final_response = last["response"];
  without_ids(final_response);
  without_ids(response);
  EXPECT_EQ(final_response, response);
}

TEST_P(Responses, CutShortIsIncomplete) {
  const TestJson response = whole(R"({"input":"hi","max_output_tokens":2})", ids("hm"), FinishReason::kLength);
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(generator_.request(1).max_tokens, 2);
}

TEST_P(Responses, ItemsOfATurnAreOneMessage) {
  const TestJson items = {
      {{"role", "user"}, {"content", {{{"type", "input_text"}, {"text", "q"}}}}},
      {{"type", "reasoning"},
       {"summary", TestJson::array()},
       {"content", {{{"type", "reasoning_text"}, {"text", "t"}}}}},
      {{"type", "message"}, {"role", "assistant"}, {"content", {{{"type", "output_text"}, {"text", "a"}}}}},
      {{"type", "function_call"}, {"call_id", "c1"}, {"name", "f"}, {"arguments", "{\"x\": 1}"}},
      {{"type", "function_call_output"}, {"call_id", "c1"}, {"output", "r"}}};
  whole(TestJson{{"input", items}}.dump(), ids("x"), FinishReason::kLength);
  const TestJson chat = {
      {"messages",
       {{{"role", "user"}, {"content", "q"}},
        {{"role", "assistant"},
         {"content", "a"},
         {"reasoning_content", "t"},
         {"tool_calls",
          {{{"id", "c1"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", "{\"x\": 1}"}}}}}}},
        {{"role", "tool"}, {"tool_call_id", "c1"}, {"content", "r"}}}}};
  Client client(port());
  client.post("/v1/chat/completions", chat.dump());
  generator_.give(generator_.wait_for_request(++requests_), ids("x"), FinishReason::kLength);
  EXPECT_EQ(client.answer().status, 200);
  EXPECT_EQ(generator_.request(1).prompt, generator_.request(2).prompt);
}

TEST_P(Responses, WhatNeedsAStoreIsRefused) {
  for (const std::string body :
       {R"({"input":"hi","previous_response_id":"resp_1"})", R"({"input":7})", R"({})",
        R"({"input":"hi","tools":[{"type":"web_search"}]})", R"({"input":"hi","background":true})",
        R"({"input":[{"type":"item_reference","id":"x"}]})"}) {
    EXPECT_EQ(post(port(), "/v1/responses", body).status, 400) << body;
  }
}

NIBBLE_ON_ONE_AND_THREE_THREADS(Responses);

}  // namespace
}  // namespace nibble::serve
