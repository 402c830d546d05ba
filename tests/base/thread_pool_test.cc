// The pool covers every index once, whatever the thread count, and survives many rounds.
#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace nibble {
namespace {

TEST(ThreadPool, CoversEachIndexOnceForAnyCountAndSize) {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    for (const int64_t count : {0, 1, 2, 5, 6, 7, 8, 1000}) {
      std::vector<int> hits(static_cast<size_t>(count), 0);
      pool.parallel_for(count, [&](int64_t begin, int64_t end, int worker) {
        EXPECT_GE(worker, 0);
        EXPECT_LT(worker, threads);
        for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
      });
      for (const int h : hits) EXPECT_EQ(h, 1);
    }
  }
}

TEST(ThreadPool, ManyShortRounds) {
  ThreadPool pool(4);
  int64_t sum = 0;
  std::vector<int64_t> part(4);
  for (int round = 0; round < 20000; ++round) {
    pool.parallel_for(4, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) part[static_cast<size_t>(i)] = i + round;
    });
    for (const int64_t p : part) sum += p;
  }
  EXPECT_EQ(sum, 4LL * 20000 * 19999 / 2 + 6LL * 20000);
}

// Each share waits for the others, so that each is on a thread of its own.
TEST(ThreadPool, ThreadsStayOnTheirProcessors) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  std::vector<int> processors;
  for (int i = 0; i < CPU_SETSIZE && processors.size() < 3; ++i) {
    if (CPU_ISSET(i, &allowed)) processors.push_back(i);
  }
  processors.resize(3, processors.back());
  ThreadPool pool(3, processors);
  std::atomic<int> arrived = 0;
  std::vector<int> only(3, -1);  // the one processor of a share's thread
  const auto caller = std::this_thread::get_id();
  pool.parallel_for(3, [&](int64_t begin, int64_t, int) {
    ++arrived;
    while (arrived < 3) std::this_thread::yield();
    if (std::this_thread::get_id() == caller) return;
    cpu_set_t own;
    CPU_ZERO(&own);
    sched_getaffinity(0, sizeof own, &own);
    for (int i = 0; CPU_COUNT(&own) == 1 && i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &own)) only[static_cast<size_t>(begin)] = i;
    }
  });
  std::vector<int> expected = {-1, processors[1], processors[2]};  // the caller goes where it likes
  std::sort(only.begin(), only.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(only, expected);
}

}  // namespace
}  // namespace nibble
