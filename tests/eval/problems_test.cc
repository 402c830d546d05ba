#include "eval/problems.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace nibble::eval {
namespace {

TEST(Problems, BothForms) {
  const auto problems = parse_problems(
      "{\"id\": 7, \"answer\": \"1,2 #### 42\", \"prompt_tokens\": [1, 2]}\r\n\n"
      "{\"question\": \"q\", \"id\": \"x\\u00e9\", \"answer\": \"5\", \"other\": null}",
      "f", 0);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].id, "7");
  EXPECT_EQ(problems[0].answer, "42");
  EXPECT_EQ(problems[0].prompt, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(problems[1].id, R"("x\u00e9")");
  EXPECT_EQ(problems[1].question, "q");
  EXPECT_TRUE(problems[1].prompt.empty());
}

TEST(Problems, LimitTakesTheFirst) {
  const std::string line = R"(, "answer": "5", "question": "q"})";
  const auto problems = parse_problems("{\"id\": 1" + line + "\n{\"id\": 2" + line + "\nnot JSON", "f", 2);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[1].id, "2");
}

TEST(Problems, Refusals) {
  const auto refused = [](const std::string& text, const std::string& says) {
    try {
      parse_problems(text, "f.jsonl", 0);
      ADD_FAILURE() << "taken: " << text;
    } catch (const Refusal& refusal) {
      EXPECT_NE((refusal.parts().what + ": " + refusal.parts().seen).find(says), std::string::npos)
          << refusal.parts().what << ": " << refusal.parts().seen;
    }
  };
  refused("", "f.jsonl: no problems");
  refused("\n \n", "f.jsonl: no problems");
  refused("{\n", "f.jsonl, line 1: not a JSON object");
  refused("[]", "line 1: not a JSON object");
  refused(R"({"answer": "1", "question": "q"})", "no \"id\"");
  refused(R"({"id": 1.5, "answer": "1", "question": "q"})", "no \"id\"");
  refused(R"({"id": 1, "question": "q"})", "no \"answer\"");
  refused(R"({"id": 1, "answer": 1, "question": "q"})", "no \"answer\"");
  refused(R"({"id": 1, "answer": " ", "question": "q"})", "an answer without content");
  refused(R"({"id": 1, "answer": "1"})", "no \"question\"");
  refused(R"({"id": 1, "answer": "1", "prompt_tokens": []})", "no list of ids");
  refused(R"({"id": 1, "answer": "1", "prompt_tokens": [1, -1]})", "holds -1");
  refused(R"({"id": 1, "answer": "1", "prompt_tokens": [2147483648]})", "holds 2147483648");
  refused(R"({"id": 1, "answer": "1", "question": "q"}
{"id": 1, "answer": "2", "question": "r"})",
          "line 2: id 1 a second time");
}

// Each hash sees what it is named after, and order.
TEST(Problems, Hashes) {
  const std::vector<Problem> a = {{.id = "1", .question = {}, .answer = "2", .prompt = {3, 4}},
                                  {.id = "5", .question = {}, .answer = "6", .prompt = {7}}};
  const ProblemHashes base = hash(a);
  auto b = a;
  b[0].id = "2";
  EXPECT_NE(hash(b).ids, base.ids);
  EXPECT_EQ(hash(b).prompts, base.prompts);
  b = a;
  b[0].prompt = {34};
  EXPECT_NE(hash(b).prompts, base.prompts);
  EXPECT_EQ(hash(b).ids, base.ids);
  b = a;
  b[1].answer = "7";
  EXPECT_NE(hash(b).answers, base.answers);
  std::swap(b[0], b[1]);
  EXPECT_NE(hash(b).ids, base.ids);
  b = a;
  b[0].prompt = {3};
  b[1].prompt = {4, 7};
  EXPECT_NE(hash(b).prompts, base.prompts);
}

}  // namespace
}  // namespace nibble::eval
