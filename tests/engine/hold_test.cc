// Requests that their caller puts aside, and files that cannot be had back.
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "base/error.h"
#include "engine/loop_fixture.h"

namespace nibble::engine {
namespace {

namespace fs = std::filesystem;

class HoldTest : public LoopFixture {
 protected:
  void SetUp() override {
    fs::create_directory(folder_);
    open({.max_sequences = 2, .step_tokens = 32, .suspended_bytes = 0, .suspend_directory = folder_});
    problems_ = load_problems(3);
  }
  void TearDown() override { fs::remove_all(folder_); }
  Request request(size_t i) const { return greedy(problems_[i].prompt); }
  std::vector<fs::path> files() const { return {fs::directory_iterator(folder_), {}}; }

  fs::path folder_ = fs::path(::testing::TempDir()) / ("nibble_hold_" + std::to_string(::getpid()));
  std::vector<Problem> problems_;
};

TEST_F(HoldTest, WaitsUntilItIsNoLongerHeld) {
  for (const int steps : {0, 1, 2, 7, 30}) {
    const Engine::Id held = submit(request(0));
    for (int i = 0; i < steps; ++i) loop_->step();
    loop_->hold(held, true);
    const size_t had = of(held).tokens.size();
    EXPECT_EQ(loop_->stats().held, 1);
    EXPECT_EQ(loop_->stats().slots_free, 2);
    const Engine::Id beside = submit(request(1));  // is not kept waiting by it
    while (loop_->step()) {
    }
    EXPECT_EQ(of(beside).tokens, problems_[1].answer);
    EXPECT_EQ(of(held).tokens.size(), had);
    EXPECT_FALSE(loop_->idle());
    loop_->hold(held, false);
    run_to_end();
    EXPECT_EQ(of(held).tokens, problems_[0].answer) << "held after " << steps;
    EXPECT_TRUE(files().empty());
  }
}

TEST_F(HoldTest, CanBeCancelledAndForgottenWhileHeld) {
  const Engine::Id held = submit(request(0));
  for (int i = 0; i < 5; ++i) loop_->step();
  loop_->hold(held, true);
  EXPECT_EQ(files().size(), 1u);
  loop_->cancel(held);
  EXPECT_EQ(of(held).finish, FinishReason::kCancelled);
  EXPECT_TRUE(files().empty());
  EXPECT_TRUE(loop_->idle());
  loop_->hold(held, true);  // nobody's number
  loop_->hold(99, false);
}

TEST_F(HoldTest, EachChoiceOfIt) {
  Request r = request(2);
  r.choices = 3;
  const Engine::Id id = submit(r);
  for (int i = 0; i < 12; ++i) loop_->step();
  loop_->hold(id, true);
  EXPECT_EQ(loop_->stats().held, 3);
  EXPECT_FALSE(loop_->step());
  loop_->hold(id, false);
  run_to_end();
  for (int32_t choice = 0; choice < 3; ++choice) EXPECT_EQ(of(id, choice).tokens, problems_[2].answer);
}

// A file that somebody changed is not believed: the tokens are run anew, and somebody is told.
TEST_F(HoldTest, AChangedFileCostsTimeOnly) {
  const Engine::Id held = submit(request(0));
  for (int i = 0; i < 9; ++i) loop_->step();
  loop_->hold(held, true);
  ASSERT_EQ(files().size(), 1u);
  const fs::path file = files().front();
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(static_cast<std::streamoff>(fs::file_size(file)) - 100);
  stream << "not the state";
  stream.close();
  loop_->hold(held, false);
  run_to_end();
  EXPECT_EQ(of(held).tokens, problems_[0].answer);
  const EngineStats stats = loop_->stats();
  EXPECT_EQ(stats.snapshot_failures, 1);
  EXPECT_NE(stats.snapshot_error.find(file.string() + ": was changed"), std::string::npos) << stats.snapshot_error;
  EXPECT_EQ(stats.suspended_file_bytes, 0);
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(stats.pages_free, stats.pages_total);
}

// So does one that cannot be written, for the directory went.
TEST_F(HoldTest, ADirectoryThatIsGoneCostsTimeOnly) {
  const Engine::Id held = submit(request(0));
  for (int i = 0; i < 9; ++i) loop_->step();
  fs::remove_all(folder_);
  loop_->suspend(held);
  run_to_end();
  EXPECT_EQ(of(held).tokens, problems_[0].answer);
  EXPECT_EQ(loop_->stats().snapshot_failures, 1);
  EXPECT_NE(loop_->stats().snapshot_error.find("cannot be created"), std::string::npos);
  fs::create_directory(folder_);
}

TEST_F(HoldTest, ADirectoryThatCannotBeWrittenIsRefusedAtOnce) {
  try {
    open({.suspend_directory = folder_ / "no_such"});
    FAIL();
  } catch (const Refusal& refusal) {
    EXPECT_EQ(refusal.parts().what, "suspend_directory " + (folder_ / "no_such").string());
  }
}

// By the public face, from another thread: what came until then, and what comes later, is the answer.
TEST_F(HoldTest, SuspendAndResumeOfAnEngine) {
  EngineOptions options;
  options.model = model_directory();
  options.context = 512;
  options.threads = 1;
  options.max_sequences = 2;
  Engine engine(options);
  std::mutex mutex;
  std::condition_variable news;
  Transcript transcript;
  const Engine::Id id = engine.submit(request(0), [&](Engine::Id, const Output& output) {
    const std::lock_guard lock(mutex);
    transcript.add(output);
    news.notify_one();
  });
  const auto wait_for = [&](const auto& what) {
    std::unique_lock lock(mutex);
    news.wait(lock, what);
  };
  wait_for([&] { return transcript.tokens.size() >= 5; });
  engine.suspend(id);
  EXPECT_EQ(engine.run(request(1))[0].tokens, problems_[1].answer);  // taken in after it, so it is held by now
  if (transcript.finish == FinishReason::kNone) {
    EXPECT_EQ(engine.stats().held, 1);
  }
  engine.resume(id);
  wait_for([&] { return transcript.finish != FinishReason::kNone; });
  EXPECT_EQ(transcript.tokens, problems_[0].answer);
  EXPECT_EQ(transcript.finish, FinishReason::kStop);

  // A deadline passes for who is held, too.
  Request late = request(0);
  late.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  Transcript ended;
  const Engine::Id held = engine.submit(late, [&](Engine::Id, const Output& output) {
    const std::lock_guard lock(mutex);
    ended.add(output);
    news.notify_one();
  });
  engine.suspend(held);
  wait_for([&] { return ended.finish != FinishReason::kNone; });
  EXPECT_TRUE(ended.finish == FinishReason::kDeadline || ended.tokens == problems_[0].answer);
}

}  // namespace
}  // namespace nibble::engine
