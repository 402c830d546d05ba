#include "traffic/latency.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace nibble::traffic {
namespace {

double ms(Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

}  // namespace

Percentiles percentiles(std::vector<double> times) {
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  const auto count = static_cast<double>(times.size());
  const auto at = [&](double percent) {
    return times[static_cast<size_t>(std::max(0.0, std::ceil(percent / 100.0 * count) - 1.0))];
  };
  return {
      .mean = std::accumulate(times.begin(), times.end(), 0.0) / count, .p50 = at(50), .p90 = at(90), .p99 = at(99)};
}

Latencies latencies(const RunResult& result) {
  std::vector<double> ttft, tpot, itl, e2e;
  for (const Timeline& t : result.timelines) {
    if (t.tokens.empty()) continue;
    ttft.push_back(ms(t.tokens.front() - t.due));
    e2e.push_back(ms(t.tokens.back() - t.due));
    for (size_t i = 1; i < t.tokens.size(); ++i) itl.push_back(ms(t.tokens[i] - t.tokens[i - 1]));
    if (t.tokens.size() < 2) continue;
    tpot.push_back(ms(t.tokens.back() - t.tokens.front()) / static_cast<double>(t.tokens.size() - 1));
  }
  return {.ttft = percentiles(std::move(ttft)),
          .tpot = percentiles(std::move(tpot)),
          .itl = percentiles(std::move(itl)),
          .e2e = percentiles(std::move(e2e))};
}

}  // namespace nibble::traffic
