// Hand-made times and what they must come to.
#include "traffic/latency.h"

#include <gtest/gtest.h>

namespace nibble::traffic {
namespace {

Clock::time_point at(int ms) { return Clock::time_point() + std::chrono::milliseconds(ms); }

TEST(Percentiles, AreTimesThatWereMeasured) {
  std::vector<double> times;
  for (int i = 100; i >= 1; --i) times.push_back(i);
  const Percentiles p = percentiles(times);
  EXPECT_EQ(p.mean, 50.5);
  EXPECT_EQ(p.p50, 50.0);
  EXPECT_EQ(p.p90, 90.0);
  EXPECT_EQ(p.p99, 99.0);
  EXPECT_EQ(percentiles({7.0}).p50, 7.0);
  EXPECT_EQ(percentiles({7.0}).p99, 7.0);
  EXPECT_EQ(percentiles({1.0, 2.0}).p50, 1.0);
  EXPECT_EQ(percentiles({}).p99, 0.0);
}

TEST(Latencies, CountFromWhenARequestWasDue) {
  const RunResult result{.timelines = {{.due = at(10), .tokens = {at(30), at(35), at(50)}},
                                       {.due = at(0), .tokens = {at(100)}},
                                       {.due = at(0), .tokens = {}}}};
  const Latencies l = latencies(result);
  EXPECT_EQ(l.ttft.mean, (20.0 + 100.0) / 2);
  EXPECT_EQ(l.ttft.p99, 100.0);
  EXPECT_EQ(l.e2e.p50, 40.0);
  EXPECT_EQ(l.tpot.mean, 10.0);  // of the first alone: 20 ms over two tokens
  EXPECT_EQ(l.itl.p50, 5.0);
  EXPECT_EQ(l.itl.p99, 15.0);
}

}  // namespace
}  // namespace nibble::traffic
