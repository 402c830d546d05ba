// /v1/messages over a scripted model.
#include "serve/scripted_server.h"

namespace nibble::serve {
namespace {

class Messages : public ScriptedServer {
 protected:
  void SetUp() override { open(); }

  TestJson whole(const std::string& body, const std::vector<int32_t>& tokens, FinishReason finish) {
    Client client(port());
    client.post("/v1/messages", body);
    generator_.give(generator_.wait_for_request(++requests_), tokens, finish);
    const Answer answer = client.answer();
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json();
  }
  // The events of a stream, put together as Anthropic's clients do it.
  TestJson streamed(TestJson body, const std::vector<int32_t>& tokens, FinishReason finish) {
    body["stream"] = true;
    Client client(port());
    client.post("/v1/messages", body.dump());
    const Engine::Id id = generator_.wait_for_request(++requests_);
    for (size_t i = 0; i < tokens.size(); ++i) {
      generator_.give(id, {tokens[i]}, i + 1 == tokens.size() ? finish : FinishReason::kNone);
    }
    client.head();
    TestJson message;
    std::string partial;
    bool stopped = false;
    while (const auto raw = client.event()) {
      const size_t data = raw->find("\ndata: ");
      const TestJson e = TestJson::parse(raw->substr(data + 7));
      const std::string type = e["type"];
      EXPECT_EQ(*raw, "event: " + type + raw->substr(data));
      if (type == "message_start") message = e["message"];
      if (type == "content_block_start") {
        EXPECT_EQ(e["index"], message["content"].size());
        message["content"].push_back(e["content_block"]);
        partial.clear();
      }
      if (type == "content_block_delta") {
        TestJson& block = message["content"][e["index"].get<size_t>()];
        const TestJson& delta = e["delta"];
        if (delta["type"] == "text_delta")
          block["text"] = block["text"].get<std::string>() + delta["text"].get<std::string>();
        if (delta["type"] == "thinking_delta") {
          block["thinking"] = block["thinking"].get<std::string>() + delta["thinking"].get<std::string>();
        }
        if (delta["type"] == "input_json_delta") {
          partial += delta["partial_json"].get<std::string>();
          if (TestJson::accept(partial)) block["input"] = TestJson::parse(partial);
        }
      }
      if (type == "message_delta") {
        message.update(e["delta"]);
        message["usage"] = e["usage"];
      }
      stopped = stopped || type == "message_stop";
    }
    EXPECT_TRUE(stopped);
    return message;
  }
  static void without_ids(TestJson& message) {
    message.erase("id");
    for (TestJson& block : message["content"]) block.erase("id");
  }
  size_t requests_ = 0;
};

const char* kHi = R"({"max_tokens":50,"messages":[{"role":"user","content":"hi"}]})";

TEST_P(Messages, WholeAndStreamedAreEqual) {
  const std::vector<int32_t> tokens =
      ids("hm<|close|>think<|sep|><|open|>response<|sep|>hello<|close|>response<|sep|><|open|>tools<|sep|>"
          "<|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"city\" type=\"string\"<|sep|>SF<|close|>"
          "argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>");
  TestJson whole_message = whole(kHi, tokens, FinishReason::kStop);
  const TestJson& content = whole_message["content"];
  ASSERT_EQ(content.size(), 3u);
  EXPECT_EQ(content[0]["thinking"], "hm");
  EXPECT_EQ(content[1]["text"], "hello");
  EXPECT_EQ(content[2]["name"], "f");
  EXPECT_EQ(content[2]["input"], (TestJson{{"city", "SF"}}));
  EXPECT_EQ(whole_message["stop_reason"], "tool_use");
  TestJson stream_message = streamed(TestJson::parse(kHi), tokens, FinishReason::kStop);
  without_ids(whole_message);
  without_ids(stream_message);
  EXPECT_EQ(stream_message, whole_message);
}

TEST_P(Messages, HowAnswersEnd) {
  EXPECT_EQ(whole(kHi, ids("hm"), FinishReason::kLength)["stop_reason"], "max_tokens");
  EXPECT_EQ(whole(kHi, ids("hm<|end_of_msg|>"), FinishReason::kStop)["stop_reason"], "end_turn");
  TestJson body = TestJson::parse(kHi);
  body["stop_sequences"] = {"END"};
  const TestJson m =
      whole(body.dump(), ids("<|close|>think<|sep|><|open|>response<|sep|>a END b"), FinishReason::kLength);
  EXPECT_EQ(m["stop_reason"], "stop_sequence");
  EXPECT_EQ(m["stop_sequence"], "END");
  EXPECT_EQ(m["content"][0]["text"], "a ");
}

// The same conversation in both forms is the same prompt.
TEST_P(Messages, TranslatedToTheSamePromptAsAChat) {
  const TestJson anthropic = {
      {"max_tokens", 5},
      {"system", {{{"type", "text"}, {"text", "Be brief."}}}},
      {"tools", {{{"name", "f"}, {"description", "d"}, {"input_schema", {{"type", "object"}}}}}},
      {"messages",
       {{{"role", "user"}, {"content", "q"}},
        {{"role", "assistant"},
         {"content",
          {{{"type", "thinking"}, {"thinking", "t"}, {"signature", ""}},
           {{"type", "text"}, {"text", "a"}},
           {{"type", "tool_use"}, {"id", "c1"}, {"name", "f"}, {"input", {{"x", 1}}}}}}},
        {{"role", "user"},
         {"content",
          {{{"type", "tool_result"}, {"tool_use_id", "c1"}, {"content", "r"}},
           {{"type", "text"}, {"text", "so?"}}}}}}}};
  const TestJson openai = {
      {"tools",
       {{{"type", "function"},
         {"function", {{"name", "f"}, {"description", "d"}, {"parameters", {{"type", "object"}}}}}}}},
      {"messages",
       {{{"role", "system"}, {"content", "Be brief."}},
        {{"role", "user"}, {"content", "q"}},
        {{"role", "assistant"},
         {"content", "a"},
         {"reasoning_content", "t"},
         {"tool_calls",
          {{{"id", "c1"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", {{"x", 1}}}}}}}}},
        {{"role", "tool"}, {"tool_call_id", "c1"}, {"content", "r"}},
        {{"role", "user"}, {"content", "so?"}}}}};
  whole(anthropic.dump(), ids("x"), FinishReason::kLength);
  Client client(port());
  client.post("/v1/chat/completions", openai.dump());
  generator_.give(generator_.wait_for_request(++requests_), ids("x"), FinishReason::kLength);
  EXPECT_EQ(client.answer().status, 200);
  EXPECT_EQ(tokenizer().decode(generator_.request(1).prompt), tokenizer().decode(generator_.request(2).prompt));
  EXPECT_EQ(generator_.request(1).prompt, generator_.request(2).prompt);
  const Answer count = post(port(), "/v1/messages/count_tokens", anthropic.dump());
  EXPECT_EQ(count.json()["input_tokens"], generator_.request(1).prompt.size());
}

TEST_P(Messages, ErrorsHaveItsForm) {
  const auto refused = [&](const std::string& body, const std::string& part) {
    const Answer answer = post(port(), "/v1/messages", body);
    EXPECT_EQ(answer.status, 400) << body;
    const TestJson json = answer.json();
    EXPECT_EQ(json["type"], "error");
    EXPECT_EQ(json["error"]["type"], "invalid_request_error");
    EXPECT_NE(json["error"]["message"].get<std::string>().find(part), std::string::npos) << json;
  };
  refused(R"({"messages":[{"role":"user","content":"hi"}]})", "max_tokens");
  refused(R"({"max_tokens":5,"messages":[{"role":"system","content":"hi"}]})", "it is user or assistant");
  refused(R"({"max_tokens":5,"messages":[{"role":"user","content":[{"type":"image","source":{}}]}]})",
          "no vision tower");
  refused(R"({"max_tokens":5,"messages":7})", "a list of messages");
  refused(R"({"max_tokens":5,"messages":["x"]})", "it is an object");
}

NIBBLE_ON_ONE_AND_THREE_THREADS(Messages);

}  // namespace
}  // namespace nibble::serve
