// Kinds of faults that others hit (docs/engine.md has the list), where no other test would see them.
#include <gtest/gtest.h>

#include <random>

#include "engine/loop_fixture.h"

namespace nibble::engine {
namespace {

class FaultsTest : public LoopFixture {
 protected:
  std::vector<int32_t> random_tokens(int64_t count) {
    std::vector<int32_t> out(static_cast<size_t>(count));
    for (int32_t& id : out) id = std::uniform_int_distribution<int32_t>(0, 1700)(random_);
    return out;
  }
  static Request probe(std::vector<int32_t> prompt, int64_t max_tokens) {
    Request r = greedy(std::move(prompt), max_tokens);
    r.top_logprobs = 8;
    r.ignore_eos = true;
    return r;
  }
  std::mt19937 random_{17};
};

// Sizes that kernels and buffers like, and those beside them.
TEST_F(FaultsTest, EveryBatchSizeGivesTheSameTokens) {
  const auto problems = load_problems(17);
  for (const int64_t batch : {1, 2, 3, 7, 8, 9, 17}) {
    open({.max_sequences = batch, .step_tokens = 64});
    std::vector<Engine::Id> ids;
    for (int64_t i = 0; i < batch; ++i) ids.push_back(submit(greedy(problems[static_cast<size_t>(i)].prompt, 9)));
    run_to_end();
    for (size_t i = 0; i < ids.size(); ++i) {
      const std::vector<int32_t>& tokens = of(ids[i]).tokens;
      EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), problems[i].answer.begin())) << batch << ", request " << i;
      EXPECT_EQ(tokens.size(), std::min<size_t>(9, problems[i].answer.size()));
    }
  }
}

TEST_F(FaultsTest, ThreeHundredRequestsAtOnceJustWait) {
  open({.max_sequences = 64, .step_tokens = 128});
  std::vector<Engine::Id> ids;
  for (int32_t i = 0; i < 300; ++i) ids.push_back(submit(greedy({i % 150}, 1)));
  EXPECT_EQ(loop_->stats().waiting, 300);
  run_to_end();
  for (size_t i = 0; i < 150; ++i) {
    ASSERT_EQ(of(ids[i]).tokens.size(), 1u);
    EXPECT_EQ(of(ids[i]).tokens, of(ids[i + 150]).tokens);
  }
  EXPECT_EQ(loop_->stats().slots_free, 64);
}

// Two conversations take turns in an index for three checkpoints: each finds the end of its last turn.
TEST_F(FaultsTest, ConversationsThatTakeTurnsKeepTheirEnds) {
  open({.context = 1024, .max_sequences = 1});
  const int64_t checkpoint = cache::PrefixIndex::bytes_per_checkpoint(loaded_->model.cache_shape(DType::kBf16));
  open({.context = 1024, .max_sequences = 1, .checkpoint_bytes = 3 * checkpoint});
  ASSERT_EQ(loop_->stats().checkpoints_total, 3);
  std::vector<int32_t> prompts[] = {random_tokens(90), random_tokens(120)};
  int64_t ends[] = {0, 0};
  for (int turn = 0; turn < 5; ++turn) {
    for (int who = 0; who < 2; ++who) {
      const Transcript t = run(probe(prompts[who], 12));
      if (turn > 0) {
        EXPECT_EQ(t.cached_tokens, ends[who]) << "turn " << turn << " of " << who;
      }
      prompts[who].insert(prompts[who].end(), t.tokens.begin(), t.tokens.end());
      ends[who] = static_cast<int64_t>(prompts[who].size()) - 1;  // the last token was not run
      const std::vector<int32_t> more = random_tokens(40);
      prompts[who].insert(prompts[who].end(), more.begin(), more.end());
    }
  }
}

// A context of many pages, in each form of the attention product: finite, and the same bits in any chunks.
TEST_F(FaultsTest, ALongContextStaysGood) {
  const std::vector<int32_t> prompt = random_tokens(900);
  for (const char* form : {"absorbed", "expanded"}) {
    Transcript whole;
    for (const int64_t step : {256, 67}) {
      open({.context = 1024, .max_sequences = 1, .step_tokens = step, .checkpoint_bytes = 0, .mla_form = form});
      const Transcript t = run(probe(prompt, 4));
      EXPECT_EQ(t.finish, FinishReason::kLength) << form << ": " << t.error;
      if (step == 256) {
        whole = t;
        continue;
      }
      EXPECT_EQ(t.tokens, whole.tokens) << form;
      ASSERT_EQ(t.logprobs.size(), whole.logprobs.size());
      for (size_t i = 0; i < t.logprobs.size(); ++i) EXPECT_EQ(t.logprobs[i].top, whole.logprobs[i].top) << form;
    }
  }
}

}  // namespace
}  // namespace nibble::engine
