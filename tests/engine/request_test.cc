// What a request may ask for, one thing at a time: how it ends, what is sampled, what it is told.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/loop_fixture.h"

namespace nibble::engine {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

class RequestTest : public LoopFixture {
 protected:
  void SetUp() override {
    open({.max_sequences = 8, .step_tokens = 64});
    problem_ = load_problems(1).front();
  }
  Request request() const { return greedy(problem_.prompt); }
  int32_t end_of_message() const { return loaded_->tokenizer.control().end_of_message; }

  Problem problem_;
};

TEST_F(RequestTest, EndsAtTheModelsStopToken) {
  const Transcript t = run(request());
  EXPECT_EQ(t.tokens, problem_.answer);
  EXPECT_EQ(t.finish, FinishReason::kStop);
  EXPECT_EQ(t.tokens.back(), end_of_message());
}

TEST_F(RequestTest, EndsAtMaxTokens) {
  Request r = request();
  r.max_tokens = 7;
  const Transcript t = run(r);
  EXPECT_EQ(t.tokens, std::vector<int32_t>(problem_.answer.begin(), problem_.answer.begin() + 7));
  EXPECT_EQ(t.finish, FinishReason::kLength);
}

TEST_F(RequestTest, EndsWhereTheContextIsFull) {
  open({.context = static_cast<int64_t>(problem_.prompt.size()) + 5, .max_sequences = 2});
  Request r = request();
  r.max_tokens = 0;
  const Transcript t = run(r);
  EXPECT_EQ(t.tokens.size(), 5u);
  EXPECT_EQ(t.finish, FinishReason::kLength);
}

TEST_F(RequestTest, EndsAtAStopIdOfItsOwn) {
  Request r = request();
  r.stop_ids = {problem_.answer[5]};
  const Transcript t = run(r);
  const auto first = std::find(problem_.answer.begin(), problem_.answer.end(), problem_.answer[5]);
  EXPECT_EQ(t.tokens, std::vector<int32_t>(problem_.answer.begin(), first + 1));
  EXPECT_EQ(t.finish, FinishReason::kStop);
}

TEST_F(RequestTest, StopStringIsFoundAcrossTokensAndLeftOut) {
  const Transcript whole = run(request());
  const size_t at = whole.text.find("16+");
  ASSERT_NE(at, std::string::npos) << whole.text;
  Request r = request();
  r.stop_strings = {"never", whole.text.substr(at, 6)};  // some tokens long
  const Transcript t = run(r);
  EXPECT_EQ(t.finish, FinishReason::kStop);
  EXPECT_EQ(t.stop_string, r.stop_strings[1]);
  EXPECT_EQ(t.text, whole.text.substr(0, whole.text.find(r.stop_strings[1])));
  EXPECT_LT(t.tokens.size(), whole.tokens.size());
}

TEST_F(RequestTest, TextOfAStopStringThatNeverCompletesIsGiven) {
  const Transcript whole = run(request());
  Request r = request();
  r.stop_strings = {whole.text.substr(whole.text.size() - 3) + "?!"};
  EXPECT_EQ(run(r).text, whole.text);
}

TEST_F(RequestTest, MinTokensPutsOffTheStop) {
  Request r = request();
  r.min_tokens = static_cast<int64_t>(problem_.answer.size()) + 10;
  const Transcript t = run(r);
  EXPECT_GE(static_cast<int64_t>(t.tokens.size()), r.min_tokens);
  for (size_t i = 0; i + 1 < static_cast<size_t>(r.min_tokens); ++i) EXPECT_NE(t.tokens[i], end_of_message());
}

TEST_F(RequestTest, IgnoreEosRunsOn) {
  Request r = request();
  r.ignore_eos = true;
  r.max_tokens = static_cast<int64_t>(problem_.answer.size()) + 9;
  const Transcript t = run(r);
  EXPECT_EQ(static_cast<int64_t>(t.tokens.size()), r.max_tokens);
  EXPECT_EQ(t.finish, FinishReason::kLength);
}

TEST_F(RequestTest, BiasBansAndForces) {
  Request r = request();
  r.sampling.logit_bias = {{problem_.answer[0], kBanned}};
  EXPECT_NE(run(r).tokens[0], problem_.answer[0]);
  r.sampling.logit_bias = {{1234, 1000.0f}};
  r.max_tokens = 5;
  EXPECT_EQ(run(r).tokens, std::vector<int32_t>(5, 1234));
}

TEST_F(RequestTest, PenaltiesSeeThePromptAndTheAnswer) {
  Request r = request();
  r.sampling.logit_bias = {{1234, 1000.0f}, {1235, 950.0f}};
  r.sampling.presence_penalty = 200.0f;
  r.sampling.frequency_penalty = 100.0f;
  r.max_tokens = 6;
  // 1000 and 950, then 700 and 650 once seen, 600 and 550 once seen again: each turn the other one leads.
  EXPECT_EQ(run(r).tokens, (std::vector<int32_t>{1234, 1235, 1234, 1235, 1234, 1235}));
}

TEST_F(RequestTest, PadAndUnknownAreNeverSampled) {
  for (const int32_t id : loaded_->facts.never_sampled) {
    Request r = request();
    r.sampling.logit_bias = {{id, 5000.0f}};
    EXPECT_EQ(run(r).tokens, problem_.answer);
  }
  EXPECT_EQ(loaded_->facts.never_sampled.size(), 2u);
}

TEST_F(RequestTest, LogprobsComeWithEachToken) {
  Request r = request();
  r.top_logprobs = 4;
  const Transcript t = run(r);
  ASSERT_EQ(t.logprobs.size(), t.tokens.size());
  for (size_t i = 0; i < t.tokens.size(); ++i) {
    EXPECT_EQ(t.logprobs[i].id, t.tokens[i]);
    ASSERT_EQ(t.logprobs[i].top.size(), 4u);
    EXPECT_EQ(t.logprobs[i].top[0].first, t.tokens[i]);  // greedy
    EXPECT_EQ(t.logprobs[i].top[0].second, t.logprobs[i].logprob);
    EXPECT_LE(t.logprobs[i].logprob, 0.0f);
  }
  EXPECT_TRUE(run(request()).logprobs.empty());
}

TEST_F(RequestTest, PromptLogprobsAreThoseOfTheTokensThatFollow) {
  // What the model says as an answer it must say of the same tokens in a prompt, bit for bit, from its second token on.
  Request answer = request();
  answer.top_logprobs = 3;
  const Transcript said = run(answer);
  Request whole = request();
  whole.prompt.insert(whole.prompt.end(), said.tokens.begin(), said.tokens.end());
  whole.prompt_logprobs = 3;
  whole.max_tokens = 2;
  whole.ignore_eos = true;
  for (const int64_t step_tokens : {8, 64}) {
    open({.max_sequences = 2, .step_tokens = step_tokens, .checkpoint_interval = 64});
    run(request());  // something to reuse, which must not be
    const Engine::Id id = submit(whole), beside = submit(request());
    loop_->step();
    loop_->step();
    loop_->suspend(id);
    run_to_end();
    const auto& scored = of(id).prompt_logprobs;
    ASSERT_EQ(scored.size(), whole.prompt.size() - 1);
    for (size_t i = 0; i < scored.size(); ++i) EXPECT_EQ(scored[i].id, whole.prompt[i + 1]);
    const size_t first = scored.size() - said.tokens.size();
    for (size_t i = 0; i < said.tokens.size(); ++i) {
      EXPECT_EQ(scored[first + i].logprob, said.logprobs[i].logprob) << "token " << i;
      EXPECT_EQ(scored[first + i].top, said.logprobs[i].top) << "token " << i;
    }
    EXPECT_EQ(of(id).tokens.size(), 2u);
    EXPECT_EQ(of(id).cached_tokens, 0);
    EXPECT_EQ(of(beside).tokens, problem_.answer);
    EXPECT_TRUE(of(beside).prompt_logprobs.empty());
  }
}

TEST_F(RequestTest, SamplesDependOnTheSeedAlone) {
  Request r = request();
  r.sampling = {.temperature = 4.0f, .top_p = 1.0f, .seed = 42};  // hot: the bundled model is sure of what it says
  r.max_tokens = 40;
  const Transcript alone = run(r);
  const Engine::Id busy = submit(r);
  Request other = r;
  other.sampling.seed = 43;
  const Engine::Id different = submit(other);
  submit(request());
  run_to_end();
  EXPECT_EQ(of(busy).tokens, alone.tokens);
  EXPECT_NE(of(different).tokens, alone.tokens);
}

TEST_F(RequestTest, ChoicesHaveStreamsOfTheirOwn) {
  Request r = request();
  r.sampling = {.temperature = 4.0f, .top_p = 1.0f, .seed = 42};
  r.max_tokens = 30;
  const Transcript single = run(r);
  r.choices = 3;
  const Engine::Id id = submit(r);
  run_to_end();
  EXPECT_EQ(of(id, 0).tokens, single.tokens);
  EXPECT_NE(of(id, 1).tokens, of(id, 0).tokens);
  EXPECT_NE(of(id, 2).tokens, of(id, 1).tokens);
  for (int32_t c = 0; c < 3; ++c) EXPECT_NE(of(id, c).finish, FinishReason::kNone);
}

TEST_F(RequestTest, CancelEndsItAtOnce) {
  const Engine::Id gone = submit(request()), stays = submit(request());
  for (int i = 0; i < 5; ++i) loop_->step();
  const size_t had = of(gone).tokens.size();
  loop_->cancel(gone);
  EXPECT_EQ(of(gone).finish, FinishReason::kCancelled);
  EXPECT_EQ(of(gone).tokens.size(), had);
  const int64_t outputs = of(gone).outputs;
  loop_->cancel(gone);  // a second time, and one that never was
  loop_->cancel(999);
  run_to_end();
  EXPECT_EQ(of(gone).outputs, outputs);
  EXPECT_EQ(of(stays).tokens, problem_.answer);
}

TEST_F(RequestTest, DeadlineEndsIt) {
  Request r = request();
  r.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  EXPECT_EQ(run(r).finish, FinishReason::kDeadline);
  r.deadline = std::chrono::steady_clock::now() + std::chrono::hours(1);
  EXPECT_EQ(run(r).tokens, problem_.answer);
}

// Lets only multiples of a number through.
class Multiples final : public TokenMask {
 public:
  explicit Multiples(int32_t of) : of_(of) {}
  void restrict(std::span<uint64_t> allowed) override {
    for (size_t i = 0; i < allowed.size() * 64; ++i) {
      if (of_ == 0 || i % static_cast<size_t>(of_) != 0) allowed[i / 64] &= ~(uint64_t{1} << (i % 64));
    }
  }
  void accept(int32_t id) override { EXPECT_EQ(id % of_, 0); }

 private:
  int32_t of_;
};

TEST_F(RequestTest, MaskRestrictsEachToken) {
  Request r = request();
  r.token_mask = [] { return std::make_unique<Multiples>(7); };
  r.max_tokens = 20;
  r.min_tokens = 20;
  const Transcript t = run(r);
  ASSERT_EQ(t.tokens.size(), 20u);
  for (const int32_t id : t.tokens) EXPECT_EQ(id % 7, 0);
  r.token_mask = [] { return std::make_unique<Multiples>(0); };
  EXPECT_EQ(run(r).finish, FinishReason::kError);
}

TEST_F(RequestTest, ACallbackThatThrowsHurtsNobodyElse) {
  loop_->submit(1000, request(), [](Engine::Id, const Output&) { throw std::runtime_error("the caller's fault"); });
  EXPECT_EQ(run(request()).tokens, problem_.answer);
}

TEST_F(RequestTest, ANaNHurtsItsOwnRequestAlone) {
  const Engine::Id bad = submit(request()), good = submit(request());
  loop_->step();
  loop_->step();
  // The first to come has slot 0: its recurrent state, in one layer, goes bad.
  spoil_states(1);
  run_to_end();
  EXPECT_EQ(of(bad).finish, FinishReason::kError);
  EXPECT_FALSE(of(bad).error.empty());
  EXPECT_EQ(of(good).tokens, problem_.answer);
  // What it leaves behind in the cache reaches nobody.
  for (int i = 0; i < 8; ++i) submit(request());
  run_to_end();
  for (Engine::Id id = good + 1; id <= good + 8; ++id) EXPECT_EQ(of(id).tokens, problem_.answer);
  EXPECT_EQ(loop_->stats().pages_free, loop_->stats().pages_total);
}

TEST_F(RequestTest, StopsAtPadEvenIfABrokenModelWantsIt) {
  const ModelFacts& facts = loaded_->facts;
  Request r = request();
  const auto state = make_request_state(1, r, {}, facts, 0);
  for (const int32_t id : facts.never_sampled) EXPECT_TRUE(stops_at(*state->completions[0], id, facts));
  EXPECT_TRUE(stops_at(*state->completions[0], loaded_->tokenizer.control().eos, facts));
  EXPECT_FALSE(stops_at(*state->completions[0], 300, facts));
}

}  // namespace
}  // namespace nibble::engine
