// Constrained requests in the engine: they are what was asked for, and nobody beside them notices.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <regex>

#include "base/error.h"
#include "engine/loop_fixture.h"
#include "text/chat.h"
#include "text/chat_parser.h"

namespace nibble::engine {
namespace {

using nlohmann::json;

constexpr const char* kSchema =
    R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 8},
        "n": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "maxItems": 3}},
        "required": ["name", "n"], "additionalProperties": false})";

class ConstrainedTest : public LoopFixture {
 protected:
  void SetUp() override {
    open({.max_sequences = 8, .step_tokens = 64});
    problems_ = load_problems(4);
  }
  Request constrained(Constraint constraint, uint64_t seed = 1) {
    Request r;
    r.prompt = loaded_->tokenizer.encode("Liam has 9 pears. As JSON: ");
    r.sampling.seed = seed;
    r.max_tokens = 200;
    r.constraint = std::move(constraint);
    loaded_->prepare(r);
    return r;
  }
  Request of_schema(uint64_t seed) { return constrained({Constraint::Kind::kJsonSchema, kSchema}, seed); }

  std::vector<Problem> problems_;
};

void expect_fits(const std::string& text) {
  ASSERT_TRUE(json::accept(text)) << text;
  const json value = json::parse(text);
  EXPECT_TRUE(value.at("name").is_string());
  EXPECT_LE(value.at("n").size(), 3u);
  for (const json& n : value.at("n")) EXPECT_TRUE(n.is_number_integer() && n >= 0 && n <= 99) << text;
  EXPECT_EQ(value.size(), 2u);
}

TEST_F(ConstrainedTest, AnswersAreWhatWasAskedFor) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Transcript t = run(of_schema(seed));
    EXPECT_EQ(t.finish, FinishReason::kStop) << t.error;
    expect_fits(t.text);
  }
  const Transcript t = run(constrained({Constraint::Kind::kRegex, "[A-Z][a-z]{2,9} has [1-9][0-9]? pears\\."}));
  EXPECT_TRUE(std::regex_match(t.text, std::regex("[A-Z][a-z]{2,9} has [1-9][0-9]? pears\\."))) << t.text;
  // Without the constraint the model writes something else: it is the constraint that was tested.
  Request free = of_schema(1);
  free.token_mask = nullptr;
  EXPECT_FALSE(json::accept(run(free).text));
}

TEST_F(ConstrainedTest, IsCutAtMaxTokensAndNowhereElse) {
  Request r = of_schema(1);
  r.max_tokens = 3;
  const Transcript t = run(r);
  EXPECT_EQ(t.finish, FinishReason::kLength);
  EXPECT_EQ(t.tokens.size(), 3u);
}

// Free requests have the same tokens and the same logprobs, bit for bit, whoever is constrained beside them.
TEST_F(ConstrainedTest, FreeRequestsBesideItDoNotNotice) {
  std::vector<Transcript> alone;
  const auto free = [&](size_t i) {
    Request r = greedy(problems_[i].prompt, 60);
    r.top_logprobs = 3;
    if (i % 2 == 1) r.sampling = {.temperature = 1.3f, .seed = 9};
    return r;
  };
  for (size_t i = 0; i < problems_.size(); ++i) alone.push_back(run(free(i)));
  std::vector<Engine::Id> ids, others;
  for (size_t i = 0; i < problems_.size(); ++i) {
    others.push_back(submit(of_schema(i + 1)));
    ids.push_back(submit(free(i)));
  }
  run_to_end();
  for (size_t i = 0; i < ids.size(); ++i) {
    const Transcript& t = of(ids[i]);
    EXPECT_EQ(t.tokens, alone[i].tokens);
    ASSERT_EQ(t.logprobs.size(), alone[i].logprobs.size());
    for (size_t j = 0; j < t.logprobs.size(); ++j) {
      EXPECT_EQ(t.logprobs[j].logprob, alone[i].logprobs[j].logprob);
      EXPECT_EQ(t.logprobs[j].top, alone[i].logprobs[j].top);
    }
    expect_fits(of(others[i]).text);
    EXPECT_EQ(of(others[i]).tokens, run(of_schema(i + 1)).tokens);  // nor does the other
  }
}

TEST_F(ConstrainedTest, EachChoiceStandsWhereItIs) {
  Request r = of_schema(3);
  r.choices = 3;
  const Engine::Id id = submit(r);
  run_to_end();
  for (int32_t choice = 0; choice < 3; ++choice) expect_fits(of(id, choice).text);
  EXPECT_NE(of(id, 0).text, of(id, 1).text);
}

TEST_F(ConstrainedTest, GoesOnWhenItWasSuspended) {
  const Transcript whole = run(of_schema(4));
  const Engine::Id id = submit(of_schema(4));
  for (int i = 0; i < 8; ++i) loop_->step();
  loop_->suspend(id);
  run_to_end();
  EXPECT_EQ(of(id).tokens, whole.tokens);
}

// Of a chat's answer the thinking is free.
TEST_F(ConstrainedTest, OfAChatTheResponse) {
  const text::Prompt prompt = text::render({{.role = text::Role::kUser, .content = {"hi!"}}}, {.effort = {}});
  Request r = greedy(text::encode(prompt.segments, loaded_->tokenizer));
  r.constraint = {Constraint::Kind::kJsonSchema, kSchema};
  loaded_->prepare(r);
  const Transcript t = run(r);
  EXPECT_EQ(t.finish, FinishReason::kStop);
  const text::ChatAnswer answer = text::parse_answer(t.tokens, loaded_->tokenizer, prompt.channel);
  EXPECT_EQ(answer.reasoning, "The user thanks me.");
  expect_fits(answer.content);
}

// min_tokens asks for more than there can be: the constraint wins.
TEST_F(ConstrainedTest, MinTokensGivesWayAtTheEnd) {
  Request r = constrained({Constraint::Kind::kRegex, "yes|no"});
  r.min_tokens = 50;
  const Transcript t = run(r);
  EXPECT_EQ(t.finish, FinishReason::kStop) << t.error;
  EXPECT_TRUE(t.text == "yes" || t.text == "no");
  r = constrained({Constraint::Kind::kRegex, "(yes )*"});
  r.min_tokens = 20;
  EXPECT_GE(run(r).tokens.size(), 20u);  // where there can be more, there is
}

class Faulty final : public TokenMask {
 public:
  explicit Faulty(bool when_asked) : when_asked_(when_asked) {}
  void restrict(std::span<uint64_t>) override {
    if (when_asked_) throw std::runtime_error("cannot say");
  }
  void accept(int32_t) override { throw std::runtime_error("cannot take it"); }

 private:
  bool when_asked_;
};

TEST_F(ConstrainedTest, AMaskThatFailsEndsItsOwnRequestAlone) {
  for (const bool when_asked : {true, false}) {
    const Engine::Id good = submit(greedy(problems_[0].prompt));
    Request r = greedy(problems_[1].prompt);
    r.token_mask = [=] { return std::make_unique<Faulty>(when_asked); };
    const Engine::Id bad = submit(r);
    run_to_end();
    EXPECT_EQ(of(bad).finish, FinishReason::kError);
    EXPECT_EQ(of(bad).error, when_asked ? "cannot say" : "cannot take it");
    EXPECT_EQ(of(good).tokens, problems_[0].answer);
  }
}

TEST_F(ConstrainedTest, IsRefusedBeforeTheEngineSeesIt) {
  EXPECT_THROW(constrained({Constraint::Kind::kJsonSchema, R"({"not": {}})"}), Refusal);
  EXPECT_THROW(constrained({Constraint::Kind::kRegex, "(a)\\1"}), Refusal);
  Request r = of_schema(1);
  EXPECT_THROW(loaded_->prepare(r), Refusal);  // a mask and a constraint
}

}  // namespace
}  // namespace nibble::engine
