// Tool calls of the bundled model: by every tool_choice, streamed and whole, and what is held of them.
#include "constrain/validator.h"
#include "serve/model_server.h"

namespace nibble::serve {
namespace {

// The first two are tools that the model was trained with, the third is not.
const TestJson& tools() {
  static const TestJson only = TestJson::parse(R"([
    {"type":"function","function":{"name":"get_weather","parameters":
      {"type":"object","properties":{"city":{"type":"string","maxLength":20}},"required":["city"]}}},
    {"type":"function","function":{"name":"set_timer","parameters":
      {"type":"object","properties":{"minutes":{"type":"number"}},"required":["minutes"]}}},
    {"type":"function","function":{"name":"book","parameters":
      {"type":"object","properties":{"room":{"enum":["single","double"]},"nights":{"type":"integer","minimum":1,"maximum":30},
       "guest":{"type":"object","properties":{"name":{"type":"string","maxLength":8}},"required":["name"]}},
       "required":["room","nights","guest"]}}}])");
  return only;
}

class ToolChoice : public ModelServer {
 protected:
  struct Call {
    std::string name;
    TestJson arguments;
    bool operator==(const Call&) const = default;
  };
  struct Outcome {
    std::vector<Call> calls;
    std::string content, finish;
  };

  static TestJson ask(const std::string& question, TestJson choice, bool thinking = true) {
    return {{"messages", {{{"role", "user"}, {"content", question}}}},
            {"tools", tools()},
            {"tool_choice", std::move(choice)},
            {"chat_template_kwargs", {{"thinking", thinking}}},
            {"temperature", 0},
            {"seed", 1},
            {"max_tokens", 200}};
  }

  // Whole, and streamed, which must be equal; every call fits the schema that its tool has declared.
  Outcome outcome(const TestJson& body) {
    Outcome out;
    const Answer whole = post(server_->port(), "/v1/chat/completions", body.dump());
    EXPECT_EQ(whole.status, 200) << whole.body;
    const TestJson choice = whole.json()["choices"][0];
    out.finish = choice["finish_reason"];
    if (choice["message"]["content"].is_string()) out.content = choice["message"]["content"];
    for (const TestJson& call : choice["message"].value("tool_calls", TestJson::array())) {
      out.calls.push_back(
          {call["function"]["name"], TestJson::parse(call["function"]["arguments"].get<std::string>())});
      EXPECT_TRUE(fits(out.calls.back())) << call;
    }
    Client client(server_->port());
    client.post("/v1/chat/completions", streamed(body).dump());
    EXPECT_EQ(client.head().status, 200);
    const Gathered got = gather(client);
    EXPECT_EQ(got.finish_reason, out.finish);
    EXPECT_EQ(got.content, out.content);
    EXPECT_EQ(got.reasoning, choice["message"].value("reasoning_content", ""));
    EXPECT_EQ(got.calls.size(), out.calls.size());
    for (const auto& [index, call] : got.calls) {
      EXPECT_EQ((Call{call.name, TestJson::parse(call.arguments)}), out.calls.at(static_cast<size_t>(index)));
    }
    return out;
  }
  static bool fits(const Call& call) {
    for (const TestJson& tool : tools()) {
      const TestJson& schema = tool["function"]["parameters"];
      if (tool["function"]["name"] == call.name)
        return constrain::is_valid(nlohmann::json::parse(call.arguments.dump()), schema, schema);
    }
    return false;
  }
  static TestJson named(const char* name) { return {{"type", "function"}, {"function", {{"name", name}}}}; }
};

constexpr const char* kTimer = "Set a timer for 25 minutes.";

TEST_F(ToolChoice, AutoLeavesItToTheModel) {  // which calls the timer: what the others are held against
  for (const bool thinking : {true, false}) {
    const Outcome timer = outcome(ask(kTimer, "auto", thinking));
    EXPECT_EQ(timer.finish, "tool_calls");
    ASSERT_EQ(timer.calls.size(), 1u);
    EXPECT_EQ(timer.calls[0], (Call{"set_timer", {{"minutes", 25}}}));
  }
}

TEST_F(ToolChoice, NoneMakesNoCall) {
  for (const bool thinking : {true, false}) {
    const Outcome none = outcome(ask(kTimer, "none", thinking));
    EXPECT_TRUE(none.calls.empty());
    EXPECT_NE(none.finish, "tool_calls");
  }
}

TEST_F(ToolChoice, RequiredMakesACall) {
  for (const bool thinking : {true, false}) {
    for (const char* question : {"hi!", kTimer}) {
      const Outcome got = outcome(ask(question, "required", thinking));
      EXPECT_EQ(got.finish, "tool_calls") << question;
      EXPECT_FALSE(got.calls.empty()) << question;
    }
  }
}

TEST_F(ToolChoice, NamedCallsThatToolAndFitsItsSchema) {
  for (const bool thinking : {true, false}) {
    for (const char* name : {"get_weather", "set_timer", "book"}) {
      const Outcome got = outcome(ask(kTimer, named(name), thinking));
      EXPECT_EQ(got.finish, "tool_calls") << name;
      ASSERT_FALSE(got.calls.empty()) << name;
      for (const Call& call : got.calls) EXPECT_EQ(call.name, name);
    }
  }
}

// Drawn at random, hot: whatever comes fits.
TEST_F(ToolChoice, HotDrawsFitToo) {
  int ended = 0;
  for (int seed = 0; seed < 6; ++seed) {
    TestJson body = ask(kTimer, seed % 2 == 0 ? TestJson("required") : named("book"), false);
    body["temperature"] = 1.5;
    body["seed"] = seed;
    body["parallel_tool_calls"] = false;
    const TestJson choice = post(server_->port(), "/v1/chat/completions", body.dump()).json()["choices"][0];
    if (choice["finish_reason"] != "tool_calls") continue;
    ++ended;
    ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u);
    const TestJson& function = choice["message"]["tool_calls"][0]["function"];
    EXPECT_TRUE(fits({function["name"], TestJson::parse(function["arguments"].get<std::string>())})) << function;
  }
  EXPECT_GE(ended, 3);
}

TEST_F(ToolChoice, StrictToolsAreHeldToTheirSchemaWhereTheModelChooses) {
  TestJson body = ask(kTimer, "auto", false);
  // The model would say 25: a schema that knows only other numbers is held all the same.
  TestJson& timer = body["tools"][1]["function"];
  timer["parameters"]["properties"]["minutes"]["enum"] = {7, 11};
  const auto minutes = [&] {
    const TestJson message = post(server_->port(), "/v1/chat/completions", body.dump()).json()["choices"][0]["message"];
    return TestJson::parse(message["tool_calls"][0]["function"]["arguments"].get<std::string>())["minutes"].get<int>();
  };
  EXPECT_EQ(minutes(), 25);
  timer["strict"] = true;
  EXPECT_TRUE(minutes() == 7 || minutes() == 11);
}

TEST_F(ToolChoice, WhatCannotBeHeldIsRefused) {
  TestJson body = ask("hi!", "required");
  body["tools"][0]["function"]["parameters"] = {{"not", TestJson::object()}};
  const Answer refused = post(server_->port(), "/v1/chat/completions", body.dump());
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("get_weather"), std::string::npos) << refused.body;
  body["tools"][0]["function"]["strict"] = false;  // any arguments, then
  EXPECT_EQ(post(server_->port(), "/v1/chat/completions", body.dump()).status, 200);
}

// The other two APIs are translated into the same.
TEST_F(ToolChoice, ResponsesAndMessagesAreHeldLikeChats) {
  const TestJson& parameters = tools()[2]["function"]["parameters"];
  const TestJson response =
      post(server_->port(), "/v1/responses",
           TestJson{{"input", "hi!"},
                    {"tools", {{{"type", "function"}, {"name", "book"}, {"parameters", parameters}}}},
                    {"tool_choice", {{"type", "function"}, {"name", "book"}}},
                    {"temperature", 0}}
               .dump())
          .json();
  EXPECT_EQ(response["output"].back()["type"], "function_call") << response;
  EXPECT_TRUE(fits({"book", TestJson::parse(response["output"].back()["arguments"].get<std::string>())}));
  const TestJson message = post(server_->port(), "/v1/messages",
                                TestJson{{"max_tokens", 200},
                                         {"messages", {{{"role", "user"}, {"content", "hi!"}}}},
                                         {"tools", {{{"name", "book"}, {"input_schema", parameters}}}},
                                         {"tool_choice", {{"type", "any"}}},
                                         {"temperature", 0}}
                                    .dump())
                               .json();
  EXPECT_EQ(message["stop_reason"], "tool_use") << message;
  EXPECT_TRUE(fits({"book", message["content"].back()["input"]}));
}

}  // namespace
}  // namespace nibble::serve
