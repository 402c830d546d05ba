// What the engine takes from the heap: nothing in a step, and no more after many requests than after few.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "engine/loop_fixture.h"
#include "testing/allocations.h"

namespace nibble::engine {
namespace {

class MemoryTest : public LoopFixture {
 protected:
  // Outputs go nowhere: what a caller allocates is the caller's.
  void submit_quietly(Request request) {
    loop_->submit(++id_, std::move(request),
                  [this](Engine::Id, const Output& output) { tokens_ += static_cast<int64_t>(output.tokens.size()); });
  }
  // Steps until `tokens` tokens have come, or all is done.
  void step_to(int64_t tokens) {
    while (tokens_ < tokens && loop_->step()) {
    }
  }

  Engine::Id last_id() const { return id_; }

  int64_t tokens_ = 0;

 private:
  Engine::Id id_ = 0;
};

// One of each kind of request that a step may hold.
std::vector<Request> mixture(const Problem& problem) {
  Request plain;
  plain.prompt = problem.prompt;
  plain.sampling.temperature = 0.0f;
  plain.ignore_eos = true;
  plain.max_tokens = 200;
  std::vector<Request> out(6, plain);
  out[1].top_logprobs = 5;
  out[2].sampling = {.temperature = 3.0f, .top_p = 0.9f, .top_k = 50, .repetition_penalty = 1.2f, .seed = 5};
  out[3].stop_strings = {"a string that no answer of this model has in it, longer than a short one", "16+!"};
  out[4].sampling.logit_bias = {{7, 2.0f}};
  out[4].stop_ids = {3};
  out[4].min_tokens = 100;
  out[5].deadline = std::chrono::steady_clock::now() + std::chrono::hours(10);
  return out;
}

TEST_F(MemoryTest, AStepAllocatesNothing) {
  open({.max_sequences = 8, .step_tokens = 64});
  const Problem problem = load_problems(1).front();
  for (Request& r : mixture(problem)) submit_quietly(std::move(r));
  step_to(24);  // every kind has run once: scratch has its size
  ASSERT_GT(loop_->stats().running, 4);

  const int64_t before = testing::allocations();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(loop_->step());
  EXPECT_EQ(testing::allocations(), before);
  EXPECT_GT(loop_->stats().running, 4);
  loop_->cancel_all();
}

// Requests come before the first step that is counted; in the steps they begin, some from what others left, share
// pages, leave checkpoints, make others' room, and end.
TEST_F(MemoryTest, NoStepOfAWholeLifeAllocates) {
  const cache::Shape shape = [&] {
    open({.max_sequences = 3});
    return loaded_->model.cache_shape(DType::kBf16);
  }();
  open({.max_sequences = 3,
        .step_tokens = 64,
        .cache_bytes = 3 * shape.bytes_per_slot() + 12 * shape.bytes_per_page() +
                       5 * cache::PrefixIndex::bytes_per_checkpoint(shape),
        .checkpoint_bytes = 5 * cache::PrefixIndex::bytes_per_checkpoint(shape),
        .suspended_bytes = 0});
  const auto problems = load_problems(3);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 9; ++i) {
      Request r = greedy(problems[static_cast<size_t>(i % 3)].prompt, 10);
      r.prompt.insert(r.prompt.end(), problems[0].prompt.begin(), problems[0].prompt.end());
      submit_quietly(std::move(r));
    }
    const int64_t before = testing::allocations(), bytes = testing::allocated_bytes();
    while (loop_->step()) {
    }
    if (round == 0) continue;  // every kind of thing has happened once
    EXPECT_EQ(testing::allocations(), before);
    EXPECT_LT(testing::allocated_bytes(), bytes);  // they are gone
  }
  EXPECT_GT(loop_->stats().prefix_hit_tokens, 0);
  EXPECT_GT(loop_->stats().pages_idle, 0);
}

// bench/memory_curve.cc is the long version.
TEST_F(MemoryTest, StaysFlatOverManyShortRequests) {
  open({.max_sequences = 16,
        .step_tokens = 64,
        .suspended_bytes = int64_t{1} << 20,
        .suspend_directory = ::testing::TempDir()});
  const auto serve = [&](int requests) {
    for (int i = 0; i < requests; ++i) {
      Request r = greedy({i % 1700}, 2);
      r.sampling.repetition_penalty = 1.1f;
      r.stop_strings = {"a stop string that is too long for the string itself"};
      if (i % 8 == 0) r.choices = 2;
      if (i % 8 == 1) r.constraint = {Constraint::Kind::kRegex, i % 16 == 1 ? "[0-9]{1,3}" : "[a-c]+"};
      loaded_->prepare(r);
      submit_quietly(std::move(r));
      if (i % 16 != 15) continue;
      loop_->step();
      for (const int back : {0, 3, 6, 9}) loop_->suspend(last_id() - static_cast<Engine::Id>(back));
      for (const int back : {2, 3}) loop_->cancel(last_id() - static_cast<Engine::Id>(back));
      run_to_end();
    }
    return testing::allocated_bytes();
  };
  const int64_t after_few = serve(320), suspended = loop_->stats().suspensions;
  EXPECT_GT(suspended, 20);
  EXPECT_EQ(serve(3200), after_few);
  EXPECT_GT(loop_->stats().suspensions, 5 * suspended);
  EXPECT_EQ(loop_->stats().snapshot_failures, 0);
}

TEST_F(MemoryTest, AStepWithAPromptAllocatesNothing) {
  open({.max_sequences = 2, .step_tokens = 8});
  Request r = greedy(load_problems(1).front().prompt);
  submit_quietly(r);
  loop_->step();
  const int64_t before = testing::allocations();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(loop_->step());  // chunks of eight
  EXPECT_EQ(testing::allocations(), before);
  EXPECT_EQ(tokens_, 0);
  loop_->cancel_all();
}

TEST_F(MemoryTest, LogprobsOfAPromptAllocateNothing) {
  open({.max_sequences = 2, .step_tokens = 8, .checkpoint_bytes = 0});
  Request r = greedy(load_problems(1).front().prompt, 2);
  r.prompt_logprobs = 5;
  r.top_logprobs = 5;
  for (int round = 0; round < 2; ++round) {
    submit_quietly(r);
    submit_quietly(r);
    const int64_t before = testing::allocations();
    while (loop_->step()) {
    }
    if (round == 1) {
      EXPECT_EQ(testing::allocations(), before);
    }  // the first round gave scratch its size
  }
  EXPECT_EQ(tokens_, 8);
}

// The published bytes are the weights: loading takes memory for what is made of them, and no copy.
TEST_F(MemoryTest, WeightsStayWhereTheyAreMapped) {
  int64_t weights = 0;
  for (const auto& file : std::filesystem::directory_iterator(model_directory())) {
    if (file.path().extension() == ".safetensors") weights += static_cast<int64_t>(file.file_size());
  }
  const int64_t before = testing::allocated_bytes();
  EngineOptions options;
  options.model = model_directory();
  options.threads = 1;
  const LoadedModel loaded(options);
  EXPECT_GT(weights, 10'000'000);
  EXPECT_LT(testing::allocated_bytes() - before, weights / 4);
}

TEST_F(MemoryTest, TheCounterCounts) {
  const int64_t count = testing::allocations(), bytes = testing::allocated_bytes();
  auto some = std::make_unique<char[]>(1000);
  some[0] = 1;
  EXPECT_EQ(testing::allocations(), count + 1);
  EXPECT_GE(testing::allocated_bytes(), bytes + 1000);
  some.reset();
  EXPECT_EQ(testing::allocated_bytes(), bytes);
}

}  // namespace
}  // namespace nibble::engine
