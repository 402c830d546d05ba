// Suspension: a request that had to make way goes on with the same bits, from any moment.
#include <gtest/gtest.h>

#include <cstring>

#include "engine/loop_fixture.h"

namespace nibble::engine {
namespace {

enum class Kept { kNot, kInMemory, kInFiles };  // kNot: run anew

class SuspendTest : public LoopFixture, public ::testing::WithParamInterface<Kept> {
 protected:
  void SetUp() override { open_with({.max_sequences = 4, .step_tokens = 32}); }
  void open_with(EngineOptions o) {
    o.checkpoint_bytes = 0;
    o.suspended_bytes = in_memory();
    o.suspend_directory = directory();
    open(o);
    runner_->cache().poison_freed(true);
    problems_ = load_problems(6);
  }
  // Enough slots, but only so many pages.
  void open_with_pages(int64_t pages) {
    const cache::Shape shape = loaded_->model.cache_shape(DType::kBf16);
    open_with({.context = 256,
               .max_sequences = 6,
               .step_tokens = 64,
               .cache_bytes = 6 * shape.bytes_per_slot() + pages * shape.bytes_per_page()});
  }
  bool kept() const { return GetParam() != Kept::kNot; }
  int64_t in_memory() const { return GetParam() == Kept::kInMemory ? int64_t{1} << 30 : 0; }
  std::string directory() const { return GetParam() == Kept::kInFiles ? ::testing::TempDir() : ""; }
  int64_t kept_bytes() const { return loop_->stats().suspended_bytes + loop_->stats().suspended_file_bytes; }
  Request request(size_t i) const { return greedy(problems_[i].prompt); }

  std::vector<Problem> problems_;
};

TEST_P(SuspendTest, AtAnyStepOfARequest) {
  for (const int steps : {1, 2, 3, 4, 9, 17, 40}) {
    const Engine::Id id = submit(request(0)), beside = submit(request(1));
    for (int i = 0; i < steps; ++i) loop_->step();
    const int64_t before = loop_->stats().suspensions;
    loop_->suspend(id);
    loop_->suspend(beside);  // back in order of arrival: into each other's slots
    EXPECT_EQ(loop_->stats().slots_free, 4);
    EXPECT_EQ(loop_->stats().pages_free, loop_->stats().pages_total);
    EXPECT_EQ(kept_bytes() > 0, kept());
    EXPECT_EQ(loop_->stats().suspended_file_bytes > 0, GetParam() == Kept::kInFiles);
    run_to_end();
    EXPECT_EQ(loop_->stats().suspensions, before + 2);
    EXPECT_EQ(kept_bytes(), 0);
    EXPECT_EQ(of(id).tokens, problems_[0].answer) << "after " << steps << " steps";
    EXPECT_EQ(of(beside).tokens, problems_[1].answer) << "after " << steps << " steps";
  }
}

TEST_P(SuspendTest, BetweenEveryTwoSteps) {
  const Engine::Id id = submit(request(2));
  do {
    loop_->suspend(id);
  } while (loop_->step() && loop_->stats().steps < 30);
  run_to_end();
  EXPECT_EQ(of(id).tokens, problems_[2].answer);
}

TEST_P(SuspendTest, OfThoseThatAreNotRunningIsNothing) {
  const Engine::Id id = submit(request(0));
  loop_->suspend(id);  // still waits
  loop_->suspend(77);
  EXPECT_EQ(loop_->stats().suspensions, 0);
  run_to_end();
  loop_->suspend(id);
  EXPECT_EQ(of(id).tokens, problems_[0].answer);
}

TEST_P(SuspendTest, CancelledWhileSuspended) {
  const Engine::Id id = submit(request(0));
  for (int i = 0; i < 6; ++i) loop_->step();
  loop_->suspend(id);
  loop_->cancel(id);
  EXPECT_EQ(of(id).finish, FinishReason::kCancelled);
  EXPECT_EQ(kept_bytes(), 0);
  EXPECT_TRUE(loop_->idle());
  EXPECT_EQ(run(request(0)).tokens, problems_[0].answer);
}

TEST_P(SuspendTest, WhenPagesRunOutTheYoungestMakesWay) {
  open_with_pages(6);  // each needs two to three
  std::vector<Engine::Id> ids;
  for (size_t i = 0; i < problems_.size(); ++i) {
    Request r = request(i);
    r.ignore_eos = true;
    r.max_tokens = 130;
    ids.push_back(submit(std::move(r)));
  }
  run_to_end();
  EXPECT_GT(loop_->stats().suspensions, 0);
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::vector<int32_t>& answer = problems_[i].answer;
    EXPECT_EQ(of(ids[i]).tokens.size(), 130u);
    EXPECT_TRUE(std::equal(answer.begin(), answer.end(), of(ids[i]).tokens.begin())) << "request " << i;
  }
}

TEST_P(SuspendTest, AHigherPriorityTakesThePlaceOfALowerOne) {
  open_with({.max_sequences = 1, .step_tokens = 32});
  const Engine::Id usual = submit(request(0));
  for (int i = 0; i < 10; ++i) loop_->step();
  Request r = request(1);
  r.priority = 5;
  const Engine::Id urgent = submit(r);
  const size_t had = of(usual).tokens.size();
  while (of(urgent).finish == FinishReason::kNone) loop_->step();
  EXPECT_EQ(of(usual).tokens.size(), had);
  run_to_end();
  EXPECT_EQ(loop_->stats().suspensions, 1);
  EXPECT_EQ(of(urgent).tokens, problems_[1].answer);
  EXPECT_EQ(of(usual).tokens, problems_[0].answer);
}

TEST_P(SuspendTest, AnEqualPriorityWaits) {
  open_with({.max_sequences = 1, .step_tokens = 32});
  const Engine::Id first = submit(request(0));
  loop_->step();
  const Engine::Id second = submit(request(1));
  run_to_end();
  EXPECT_EQ(loop_->stats().suspensions, 0);
  EXPECT_EQ(of(first).tokens, problems_[0].answer);
  EXPECT_EQ(of(second).tokens, problems_[1].answer);
}

// It has its slot, and the state of the prefix that it begins with has arrived, but it has not run a step.
TEST_P(SuspendTest, BetweenArrivalAndTheFirstStep) {
  cache::Cache& cache = runner_->cache();
  cache::PrefixIndex index(cache, 4);
  Reuse reuse(index, {});
  std::vector<int32_t> prompt = problems_[0].prompt;
  prompt.insert(prompt.end(), problems_[1].prompt.begin(), problems_[1].prompt.end());
  ASSERT_GT(prompt.size(), 66u);
  const auto state = [&] {
    Request r = greedy(prompt);
    return make_request_state(1, r, {}, loaded_->facts, 0);
  };
  const auto step = [&](Scheduler& scheduler) {
    const auto planned = scheduler.plan();
    EXPECT_EQ(planned.size(), 1u);
    Completion& c = *planned[0].completion;
    const auto tokens = std::span<const int32_t>(c.tokens).subspan(static_cast<size_t>(c.sequence.length),
                                                                   static_cast<size_t>(planned[0].rows));
    const SequenceRows rows[] = {{.sequence = &c.sequence, .tokens = tokens}};
    runner_->forward(rows);
    reuse.take_due(c);
    return planned[0].last;
  };
  const auto logits = [&] {
    const auto read = runner_->read_logits();
    return std::vector<float>(read.begin(), read.end());
  };
  Scheduler scheduler(cache, reuse,
                      {.step_rows = 32,
                       .sequences = 4,
                       .suspended_bytes = in_memory(),
                       .suspend_directory = directory(),
                       .suspended_file_bytes = int64_t{1} << 30});
  auto first = state();
  scheduler.add(*first->completions[0]);
  while (!step(scheduler)) {
  }
  const std::vector<float> want = logits();
  reuse.proven(*first->completions[0]);
  scheduler.remove(*first->completions[0]);

  auto second = state();
  Completion& c = *second->completions[0];
  scheduler.add(c);
  scheduler.plan();
  ASSERT_EQ(c.sequence.length, static_cast<int64_t>(prompt.size()) - 1);  // arrived
  scheduler.suspend(c);
  EXPECT_EQ(c.suspended.length() > 0, kept());
  index.clear();  // what it began from is gone
  cache::Sequence squatter;
  ASSERT_TRUE(cache.reserve(squatter, 64));  // and so is its slot
  while (!step(scheduler)) {
  }
  EXPECT_NE(c.sequence.slot, squatter.slot);
  const std::vector<float> got = logits();
  EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0);
  scheduler.remove(c);
  cache.release(squatter);
  index.clear();
}

INSTANTIATE_TEST_SUITE_P(Engine, SuspendTest, ::testing::Values(Kept::kNot, Kept::kInMemory, Kept::kInFiles),
                         [](const auto& kept) {
                           return kept.param == Kept::kNot        ? "run_anew"
                                  : kept.param == Kept::kInMemory ? "in_memory"
                                                                  : "in_files";
                         });

}  // namespace
}  // namespace nibble::engine
