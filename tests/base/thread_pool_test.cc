// The pool covers every index once, whatever the thread count, and survives many rounds.
#include "base/thread_pool.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace nibble
