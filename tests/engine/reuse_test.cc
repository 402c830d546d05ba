// Prefix reuse: the same bits as cold, from where a checkpoint is and nowhere else, and never from one that failed.
#include "engine/reuse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>

#include "engine/loop_fixture.h"

namespace nibble::engine {
namespace {

class ReuseTest : public LoopFixture {
 protected:
  void SetUp() override { open_with(16); }
  void open_with(int64_t checkpoints, int64_t interval = 256, int64_t pages = 0, int64_t context = 1024) {
    EngineOptions o{.context = context, .max_sequences = 4, .step_tokens = 64, .checkpoint_interval = interval};
    if (!loaded_) open(o);
    const cache::Shape shape = loaded_->model.cache_shape(DType::kBf16);
    o.checkpoint_bytes = checkpoints * cache::PrefixIndex::bytes_per_checkpoint(shape);
    if (pages > 0) {
      o.cache_bytes = o.max_sequences * shape.bytes_per_slot() + o.checkpoint_bytes + pages * shape.bytes_per_page();
    }
    open(o);
    runner_->cache().poison_freed(true);
  }

  std::vector<int32_t> random_tokens(int64_t count) {
    std::vector<int32_t> out(static_cast<size_t>(count));
    for (int32_t& id : out) id = std::uniform_int_distribution<int32_t>(0, 1700)(random_);
    return out;
  }
  static std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  // A few tokens with the likeliest 20 at each, so that logits are compared and not only what comes first.
  static Request probe(std::vector<int32_t> prompt, int64_t max_tokens = 6) {
    Request r = greedy(std::move(prompt), max_tokens);
    r.top_logprobs = 20;
    r.ignore_eos = true;
    return r;
  }
  Transcript cold(const Request& request) {
    ReuseTest::CloseOnExit guard(*this);
    return guard.run(request);
  }
  static void expect_same(const Transcript& got, const Transcript& want) {
    EXPECT_EQ(got.tokens, want.tokens);
    ASSERT_EQ(got.logprobs.size(), want.logprobs.size());
    for (size_t i = 0; i < got.logprobs.size(); ++i) {
      EXPECT_EQ(got.logprobs[i].top, want.logprobs[i].top) << "token " << i;  // equal floats: no NaN is among them
    }
  }

  // A loop of its own, without reuse, over the same model.
  class CloseOnExit {
   public:
    explicit CloseOnExit(ReuseTest& test) : test_(test) {
      EngineOptions o{
          .context = test.loaded_->facts.context, .max_sequences = 1, .step_tokens = 64, .checkpoint_bytes = 0};
      runner_ = make_runner(o, *test.loaded_);
    }
    Transcript run(const Request& request) {
      StepLoop loop(*runner_, test_.loaded_->tokenizer, test_.loaded_->facts);
      Transcript out;
      loop.submit(1, request, [&](Engine::Id, const Output& o) { out.add(o); });
      while (loop.step()) {
      }
      return out;
    }
    Runner& runner() { return *runner_; }

   private:
    ReuseTest& test_;
    std::unique_ptr<Runner> runner_;
  };

  std::mt19937 random_{3};
};

TEST_F(ReuseTest, TheSamePromptAgainRunsOneRow) {
  const Request r = probe(random_tokens(150));
  const Transcript want = cold(r), first = run(r);
  EXPECT_EQ(first.cached_tokens, 0);
  const int64_t rows = loop_->stats().prompt_tokens;
  const Transcript again = run(r);
  expect_same(first, want);
  expect_same(again, want);
  EXPECT_EQ(again.cached_tokens, 149);
  EXPECT_EQ(loop_->stats().prompt_tokens, rows + 1);
  EXPECT_EQ(loop_->stats().prefix_query_tokens, 300);
  EXPECT_EQ(loop_->stats().prefix_hit_tokens, 149);
}

TEST_F(ReuseTest, TheNextTurnBeginsAtTheEndOfTheLast) {
  std::vector<int32_t> talk = random_tokens(90);
  for (int turn = 0; turn < 4; ++turn) {
    const Request r = probe(talk, 12);
    const Transcript got = run(r);
    expect_same(got, cold(r));
    // The last token of an answer was sampled but not run.
    EXPECT_EQ(got.cached_tokens, turn == 0 ? 0 : static_cast<int64_t>(talk.size()) - 26);
    talk = joined(joined(talk, got.tokens), random_tokens(25));
  }
}

TEST_F(ReuseTest, APromptThatPartsBetweenCheckpointsBeginsAtTheOneBefore) {
  open_with(16, /*interval=*/128);
  const auto shared = random_tokens(300);
  run(probe(joined(shared, random_tokens(150))));
  const Request second = probe(joined(shared, random_tokens(70)));
  const Transcript got = run(second);
  expect_same(got, cold(second));
  EXPECT_EQ(got.cached_tokens, 256);
}

TEST_F(ReuseTest, WhereOneHasPartedTheNextCanBegin) {
  open_with(16, /*interval=*/1024);
  const auto shared = random_tokens(330);
  run(probe(joined(shared, random_tokens(30))));
  EXPECT_EQ(run(probe(joined(shared, random_tokens(40)))).cached_tokens, 0);  // pages, but no state: leaves one
  const Request third = probe(joined(shared, random_tokens(50)));
  const Transcript got = run(third);
  EXPECT_EQ(got.cached_tokens, 320);
  expect_same(got, cold(third));
}

TEST_F(ReuseTest, TheEndOfATurnIsAPlaceToBegin) {
  auto instructions = random_tokens(100);
  instructions.push_back(loaded_->facts.turn_end);
  run(probe(joined(instructions, random_tokens(80))));
  const Request r = probe(joined(instructions, random_tokens(80)));
  const Transcript got = run(r);
  EXPECT_EQ(got.cached_tokens, 101);
  expect_same(got, cold(r));
}

TEST_F(ReuseTest, ALongSharedPromptCostsLittle) {
  open_with(16, /*interval=*/64);
  const auto shared = random_tokens(900);
  run(probe(joined(shared, random_tokens(20)), 1));
  const int64_t cold_rows = loop_->stats().prompt_tokens;
  run(probe(joined(shared, random_tokens(20)), 1));
  const int64_t second = loop_->stats().prompt_tokens - cold_rows;
  const Request r = probe(joined(shared, random_tokens(20)));
  const Transcript got = run(r);
  const int64_t third = loop_->stats().prompt_tokens - cold_rows - second;
  EXPECT_LT(second, 300);            // from one of the few checkpoints that a single prompt may leave
  EXPECT_LT(third, cold_rows / 10);  // from where the second parted from the first
  expect_same(got, cold(r));
}

// Instructions of 2,000 tokens that many questions share: each runs what is behind their end, and its logits have the
// bits of a run that reused nothing. The control: other instructions, as long, from which nothing can be reused.
TEST_F(ReuseTest, TwoThousandTokensAreRunOnce) {
  open_with(16, 256, /*pages=*/0, /*context=*/2560);
  auto instructions = random_tokens(1999);
  instructions.push_back(loaded_->facts.turn_end);
  const auto question = [&](int64_t tokens) { return probe(joined(instructions, random_tokens(tokens)), 1); };
  const auto rows_of = [&](const Request& r) {
    const int64_t before = loop_->stats().prompt_tokens;
    run(r);
    return loop_->stats().prompt_tokens - before;
  };
  EXPECT_EQ(rows_of(question(16)), 2016);
  const Request second = question(16);
  EXPECT_EQ(rows_of(second), 16);
  const auto warm = runner_->read_logits();
  CloseOnExit alone(*this);
  alone.run(second);
  const auto cold = alone.runner().read_logits();
  ASSERT_EQ(warm.size(), static_cast<size_t>(loaded_->facts.vocabulary));
  EXPECT_TRUE(std::ranges::equal(std::as_bytes(warm), std::as_bytes(cold)));
  EXPECT_EQ(rows_of(question(40)), 40);
  EXPECT_EQ(loop_->stats().prefix_hit_tokens, 2 * 2000);
  instructions[0] = (instructions[0] + 1) % 1700;
  EXPECT_EQ(rows_of(question(16)), 2016);
}

// Nothing says where prompts will part: the end of a long one is a place, the next guess is not far.
TEST_F(ReuseTest, ALongTextWithAnotherTail) {
  open_with(16, 256, /*pages=*/0, /*context=*/2560);
  const auto text = random_tokens(2000);
  run(probe(joined(text, random_tokens(16)), 1));
  const Request same_length = probe(joined(text, random_tokens(16)), 1),
                longer = probe(joined(text, random_tokens(90)), 1);
  const Transcript got = run(same_length);
  expect_same(got, cold(same_length));
  EXPECT_EQ(got.cached_tokens, 1984);
  EXPECT_EQ(run(longer).cached_tokens, 1984);
  EXPECT_EQ(
      run(probe(joined(std::vector<int32_t>(text.begin(), text.begin() + 1900), random_tokens(90)), 1)).cached_tokens,
      1792);
}

// Guesses of a long prompt fill what room there is, and are the first to go: a conversation keeps its end.
TEST_F(ReuseTest, GuessesGoFirst) {
  open_with(8, 64);
  const Request talk = probe(random_tokens(100));
  std::vector<int32_t> next = joined(talk.prompt, run(talk).tokens);
  const auto end = static_cast<int64_t>(next.size()) - 1;
  run(probe(random_tokens(900)));
  EXPECT_EQ(loop_->stats().checkpoints, 8);
  for (int i = 0; i < 4; ++i) submit(probe(random_tokens(100)));  // at once: none has ended when the last one begins
  run_to_end();
  EXPECT_EQ(run(probe(joined(next, random_tokens(70)))).cached_tokens, end);
}

TEST_F(ReuseTest, ChoicesShareTheirPrompt) {
  Request r = probe(random_tokens(200));
  r.sampling = {.temperature = 4.0f, .top_p = 1.0f, .seed = 9};
  std::vector<Transcript> want;
  for (uint64_t choice = 0; choice < 3; ++choice) {
    Request one = r;
    one.sampling.seed = 9 + choice * 0x9E3779B97F4A7C15u;
    want.push_back(cold(one));
  }
  r.choices = 3;
  const Engine::Id id = submit(r);
  run_to_end();
  for (int32_t choice = 0; choice < 3; ++choice) expect_same(of(id, choice), want[static_cast<size_t>(choice)]);
  EXPECT_EQ(loop_->stats().prompt_tokens, 202);
  EXPECT_EQ(of(id, 1).cached_tokens, 199);
}

TEST_F(ReuseTest, ShortPromptsLeaveNothing) {
  run(greedy(random_tokens(40), 5));
  EXPECT_EQ(loop_->stats().checkpoints, 0);
  EXPECT_EQ(loop_->stats().pages_idle, 0);
}

TEST_F(ReuseTest, OffNothingIsReused) {
  open_with(0);
  const Request r = probe(random_tokens(150));
  run(r);
  EXPECT_EQ(run(r).cached_tokens, 0);
  EXPECT_EQ(loop_->stats().checkpoints_total, 0);
  EXPECT_EQ(loop_->stats().checkpoint_bytes, 0);
  EXPECT_EQ(runner_->cache().idle_pages(), 0);
}

TEST_F(ReuseTest, PagesAreThereForThoseWhoRun) {
  open_with(16, 256, /*pages=*/16);
  std::vector<Request> requests;
  for (int i = 0; i < 6; ++i) requests.push_back(probe(random_tokens(400)));
  for (const Request& r : requests) expect_same(run(r), cold(r));  // 7 pages each: the third pushes the first out
  EXPECT_EQ(loop_->stats().suspensions, 0);
  EXPECT_EQ(loop_->stats().pages_free, 16);
  EXPECT_GT(loop_->stats().pages_idle, 0);
  expect_same(run(requests[0]), cold(requests[0]));
  EXPECT_EQ(of(6 + 2).cached_tokens, 0);
}

TEST_F(ReuseTest, NothingIsReusedOfAFailedRequest) {
  const Request r = probe(random_tokens(200), 20);
  const Transcript want = cold(r);
  // Once in the middle of the prompt, before anything was sampled; once while it generates, when others could already
  // begin from its prompt.
  for (const int steps : {2, 8}) {
    const Engine::Id id = submit(r);
    for (int i = 0; i < steps; ++i) loop_->step();
    spoil_states(4);
    run_to_end();
    EXPECT_EQ(of(id).finish, FinishReason::kError);
    EXPECT_EQ(loop_->stats().checkpoints, 0);
    EXPECT_EQ(loop_->stats().pages_idle, 0);
    const Transcript again = run(r);
    EXPECT_EQ(again.cached_tokens, 0);
    expect_same(again, want);
    open_with(16);
  }
}

// It takes its checkpoint, and another comes with the same prompt, before a token has shown that its state is bad.
TEST_F(ReuseTest, WhatIsNotProvenIsInNobodysReach) {
  const Request r = probe(random_tokens(200));
  const Engine::Id bad = submit(r);
  loop_->step();
  loop_->step();
  spoil_states(1);
  loop_->step();
  loop_->step();
  const Engine::Id good = submit(r);
  run_to_end();
  EXPECT_EQ(of(bad).finish, FinishReason::kError);
  EXPECT_EQ(of(good).cached_tokens, 0);
  expect_same(of(good), cold(r));
}

TEST_F(ReuseTest, ACancelledPromptIsNotBelieved) {
  const Request r = probe(random_tokens(200));
  const Engine::Id id = submit(r);
  for (int i = 0; i < 4; ++i) loop_->step();  // up to its checkpoint
  EXPECT_EQ(of(id).outputs, 0);
  loop_->cancel(id);
  EXPECT_EQ(loop_->stats().checkpoints, 0);
  EXPECT_EQ(loop_->stats().pages_free, loop_->stats().pages_total);
  EXPECT_EQ(run(r).cached_tokens, 0);
}

TEST_F(ReuseTest, WhoBeganFromAHitAndIsSuspendedGoesOnExactly) {
  open_with(2);
  const auto shared = random_tokens(150);
  run(probe(shared));
  Request r = probe(joined(shared, random_tokens(60)), 20);
  const Engine::Id id = submit(r);
  loop_->step();
  loop_->suspend(id);
  for (int i = 0; i < 3; ++i) run(probe(random_tokens(150)));  // push out what it began from
  run_to_end();
  EXPECT_GT(of(id).cached_tokens, 0);
  expect_same(of(id), cold(r));
}

}  // namespace
}  // namespace nibble::engine
