// Who runs, with how many rows: order, fairness, admission. No model takes part.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "testing/devices.h"

namespace nibble::engine {
namespace {

constexpr cache::Shape kSmall = {.kda_layers = 1,
                                 .heads = 1,
                                 .key_dim = 4,
                                 .value_dim = 4,
                                 .taps = 4,
                                 .mla_layers = 1,
                                 .latent_dim = 4,
                                 .shared_dim = 2};
const ModelFacts kFacts = {.vocabulary = 100, .context = 100'000, .stop_ids = {}, .never_sampled = {}};

class SchedulerTest : public ::testing::Test {
 protected:
  void make(int64_t pages, const SchedulerLimits& limits) {
    cache_ = std::make_unique<cache::Cache>(*device_, kSmall, pages, limits.sequences);
    index_ = std::make_unique<cache::PrefixIndex>(*cache_, 0);
    reuse_ = std::make_unique<Reuse>(*index_, ReuseOptions{});
    scheduler_ = std::make_unique<Scheduler>(*cache_, *reuse_, limits);
  }

  Completion& add(int64_t prompt, int64_t max_tokens, int32_t priority = 0) {
    Request r;
    r.prompt.assign(static_cast<size_t>(prompt), 1);
    r.max_tokens = max_tokens;
    r.priority = priority;
    states_.push_back(make_request_state(states_.size(), std::move(r), {}, kFacts, states_.size()));
    scheduler_->add(*states_.back()->completions[0]);
    return *states_.back()->completions[0];
  }

  // What a step does to those that take part.
  void run(std::span<const PlannedRows> planned) {
    for (const PlannedRows& p : planned) {
      p.completion->sequence.length += p.rows;
      if (p.last) p.completion->tokens.push_back(2);
    }
  }

  static int64_t rows_of(std::span<const PlannedRows> planned, const Completion& c) {
    for (const PlannedRows& p : planned) {
      if (p.completion == &c) return p.rows;
    }
    return 0;
  }

  std::unique_ptr<Device> device_ = [] {
    const testing::DeviceCase device_case = testing::all_devices().front();
    return device_case.make(device_case);
  }();
  std::unique_ptr<cache::Cache> cache_;
  std::unique_ptr<cache::PrefixIndex> index_;
  std::unique_ptr<Reuse> reuse_;
  std::vector<std::unique_ptr<RequestState>> states_;
  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(SchedulerTest, ChunksAPromptAndSamplesAtItsEnd) {
  make(100, {.step_rows = 64, .sequences = 2});
  const Completion& c = add(150, 5);
  for (const int64_t rows : {64, 64, 22, 1}) {
    const auto planned = scheduler_->plan();
    ASSERT_EQ(planned.size(), 1u);
    EXPECT_EQ(planned[0].rows, rows);
    EXPECT_EQ(planned[0].last, c.sequence.length + rows >= 150);
    run(planned);
  }
}

TEST_F(SchedulerTest, GeneratingCompletionsComeFirstAndPromptsShareTheRest) {
  make(100, {.step_rows = 40, .sequences = 4});
  const Completion& generating = add(3, 50);
  run(scheduler_->plan());
  const Completion &longest = add(1000, 5), &brief = add(4, 5), &other = add(1000, 5);
  const auto planned = scheduler_->plan();
  EXPECT_EQ(rows_of(planned, generating), 1);
  EXPECT_EQ(rows_of(planned, brief), 4);  // needs less than its share of 13, so the others have more
  EXPECT_EQ(rows_of(planned, longest) + rows_of(planned, other), 35);
  EXPECT_LE(std::abs(rows_of(planned, longest) - rows_of(planned, other)), 1);
}

TEST_F(SchedulerTest, NobodyIsLeftOutOfAFullStep) {
  make(200, {.step_rows = 8, .sequences = 8});
  for (int i = 0; i < 7; ++i) add(1, 50);
  const Completion& prompt = add(500, 5);
  for (int step = 0; step < 5; ++step) {
    const auto planned = scheduler_->plan();
    EXPECT_EQ(planned.size(), 8u);
    EXPECT_EQ(rows_of(planned, prompt), 1);
    run(planned);
  }
}

TEST_F(SchedulerTest, ManyMoreThanFitJustWait) {
  make(100, {.step_rows = 64, .sequences = 4});
  for (int i = 0; i < 300; ++i) add(1, 1);
  int64_t finished = 0;
  while (scheduler_->running() + scheduler_->waiting() > 0) {
    const auto planned = scheduler_->plan();
    ASSERT_FALSE(planned.empty());
    ASSERT_LE(planned.size(), 4u);
    std::vector<Completion*> done;
    for (const PlannedRows& p : planned) done.push_back(p.completion);
    run(planned);
    for (Completion* c : done) {
      EXPECT_EQ(c->arrival, static_cast<uint64_t>(finished++));  // first come, first served
      scheduler_->remove(*c);
    }
  }
  EXPECT_EQ(finished, 300);
  EXPECT_EQ(cache_->free_pages(), 100);
  EXPECT_EQ(cache_->free_slots(), 4);
}

TEST_F(SchedulerTest, PriorityGoesBeforeArrival) {
  make(100, {.step_rows = 64, .sequences = 1});
  Completion& first = add(4, 4);
  EXPECT_EQ(rows_of(scheduler_->plan(), first), 4);
  const Completion& usual = add(4, 4);
  const Completion& urgent = add(4, 4, /*priority=*/1);
  scheduler_->remove(first);
  const auto planned = scheduler_->plan();
  EXPECT_EQ(rows_of(planned, urgent), 4);
  EXPECT_EQ(rows_of(planned, usual), 0);
}

TEST_F(SchedulerTest, PagesComeAsTheyAreNeeded) {
  make(20, {.step_rows = 256, .sequences = 4});
  Completion& c = add(64, 1000);
  run(scheduler_->plan());
  EXPECT_EQ(cache_->free_pages(), 19);  // not the 17 that it may need one day
  run(scheduler_->plan());
  EXPECT_EQ(cache_->free_pages(), 18);
  EXPECT_EQ(c.sequence.pages.size(), 2u);
}

TEST_F(SchedulerTest, WhoStartsLeavesAPageForEachThatMayGrow) {
  make(6, {.step_rows = 256, .sequences = 4});
  add(64, 100);
  add(63, 1);  // will need no more
  run(scheduler_->plan());
  Completion& next = add(120, 100);
  scheduler_->plan();
  EXPECT_EQ(next.phase, Completion::Phase::kRunning);
  EXPECT_EQ(scheduler_->running(), 3);
  add(64, 100);
  scheduler_->plan();
  EXPECT_EQ(scheduler_->waiting(), 1);
}

TEST_F(SchedulerTest, TheYoungestOfTheLowestPriorityMakesWay) {
  make(5, {.step_rows = 256, .sequences = 4, .suspended_bytes = 1 << 20});
  Completion &low = add(60, 1000, -1), &first = add(60, 1000), &second = add(60, 1000);
  const auto step_until = [&](int64_t suspensions) {
    for (int i = 0; i < 200 && scheduler_->suspensions() < suspensions; ++i) run(scheduler_->plan());
    EXPECT_EQ(scheduler_->suspensions(), suspensions);
  };
  step_until(1);
  EXPECT_EQ(low.phase, Completion::Phase::kWaiting);
  EXPECT_GT(low.suspended.length(), 0);
  EXPECT_EQ(scheduler_->suspended_bytes(), low.suspended.memory_bytes());
  step_until(2);
  EXPECT_EQ(second.phase, Completion::Phase::kWaiting);
  EXPECT_EQ(first.phase, Completion::Phase::kRunning);
  scheduler_->remove(first);
  run(scheduler_->plan());
  EXPECT_EQ(second.phase, Completion::Phase::kRunning);  // before the one of lower priority
  scheduler_->remove(second);
  scheduler_->remove(low);
  EXPECT_EQ(scheduler_->suspended_bytes(), 0);
  EXPECT_EQ(cache_->free_pages(), 5);
}

TEST_F(SchedulerTest, NobodyIsSuspendedForNothing) {
  make(10, {.step_rows = 256, .sequences = 4});
  add(64 * 8, 10, 1);
  Completion& low = add(60, 3, 0);
  run(scheduler_->plan());
  add(64 * 4, 10, 1);  // would not fit without the low one either
  scheduler_->plan();
  EXPECT_EQ(low.phase, Completion::Phase::kRunning);
  EXPECT_EQ(scheduler_->suspensions(), 0);
}

TEST_F(SchedulerTest, PromptsThatAreScoredKeepToTheLogits) {
  make(100, {.step_rows = 100, .sequences = 4, .sampled_rows = 24});
  Completion &scored = add(200, 5), &other = add(200, 5), &also = add(200, 5);
  for (Completion* c : {&scored, &also}) c->request->request.prompt_logprobs = 0;
  const auto planned = scheduler_->plan();
  EXPECT_EQ(rows_of(planned, scored) + rows_of(planned, also), 24 - 1);
  EXPECT_GE(rows_of(planned, also), 1);
  EXPECT_EQ(rows_of(planned, other), 100 - 23);
}

TEST_F(SchedulerTest, RemovesFromAnyState) {
  make(100, {.step_rows = 64, .sequences = 1});
  Completion& running = add(100, 4);
  Completion& waiting = add(100, 4);
  run(scheduler_->plan());
  scheduler_->remove(waiting);
  scheduler_->remove(running);
  EXPECT_TRUE(scheduler_->plan().empty());
  EXPECT_EQ(cache_->free_pages(), 100);
}

}  // namespace
}  // namespace nibble::engine
