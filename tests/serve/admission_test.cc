// The limit of the queue holds whoever asks at the same time, and the end is seen exactly once.
#include "serve/admission.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace nibble::serve {
namespace {

TEST(Admission, NeverMoreThanFitWhoeverAsksAtOnce) {
  constexpr int kThreads = 8, kTries = 2000, kMost = 100;
  Admission admission(kMost - 10, 10);
  std::atomic<int> in = 0, most = 0, drained = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const int choices = i % 3 + 1;
      int held = 0;  // requests
      for (int n = 0; n < kTries; ++n) {
        if (!admission.enter(choices)) {
          const int now = in += choices;
          for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
          }
          ++held;
        } else {
          for (; held > 0; --held) {
            in -= choices;
            admission.release(choices);
            admission.leave();
          }
        }
      }
      for (; held > 0; --held) {
        in -= choices;
        admission.release(choices);
        admission.leave();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, kMost);
  EXPECT_GT(most, kMost - 3);  // it was full
  admission.drain([&] { ++drained; });
  EXPECT_EQ(drained, 1);  // all that entered have left
}

TEST(Admission, DrainedOnceTheLastHasLeft) {
  Admission admission(2, 1);
  int drained = 0;
  EXPECT_EQ(admission.enter(4)->status, 400);  // would never fit
  EXPECT_FALSE(admission.enter(2));
  EXPECT_EQ(admission.refusal(2)->code, "queue_full");
  EXPECT_EQ(admission.enter(2)->status, 429);
  admission.enter_work();
  admission.drain([&] { ++drained; });
  EXPECT_TRUE(admission.draining());
  EXPECT_EQ(admission.enter(1)->code, "draining");
  admission.release(2);
  admission.leave();
  EXPECT_EQ(drained, 0);
  admission.leave();
  EXPECT_EQ(drained, 1);
  admission.enter_work();  // what nobody asked for any more
  admission.leave();
  EXPECT_EQ(drained, 1);
}

// The last of an answer is written in between.
TEST(Admission, PlacesAreFreeBeforeTheRequestHasLeft) {
  Admission admission(1, 0);
  int drained = 0;
  EXPECT_FALSE(admission.enter(1));
  EXPECT_EQ(admission.refusal(1)->status, 429);
  admission.release(1);
  EXPECT_FALSE(admission.enter(1));
  admission.drain([&] { ++drained; });
  admission.leave();
  EXPECT_EQ(drained, 0);
  admission.release(1);
  admission.leave();
  EXPECT_EQ(drained, 1);
}

}  // namespace
}  // namespace nibble::serve
