// What a run's times say: percentiles and throughput, under the names that serving benchmarks use.
#pragma once

#include <cstdint>
#include <vector>

#include "traffic/run.h"

namespace nibble::traffic {

// Of a list of times, in milliseconds. A percentile is the smallest time that so many percent do not exceed.
struct Percentiles {
  double mean = 0.0, p50 = 0.0, p90 = 0.0, p99 = 0.0;
};
Percentiles percentiles(std::vector<double> ms);  // zeros for none

struct Latencies {
  Percentiles ttft;  // from when a request was due to its first token
  Percentiles tpot;  // of a request: from its first token to its last, over the tokens between; of two tokens or more
  Percentiles itl;   // between two tokens of one request
  Percentiles e2e;   // from when it was due to its last token
};
Latencies latencies(const RunResult& result);

}  // namespace nibble::traffic
