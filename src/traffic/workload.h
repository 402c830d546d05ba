// The requests of a load, all of them drawn before any is sent.
#pragma once

#include <cstdint>
#include <vector>

#include "traffic/lengths.h"

namespace nibble::traffic {

struct WorkloadOptions {
  int64_t requests = 64;
  double rate = 0.0;  // arrivals a second, apart by exponential gaps; 0: each as soon as one may be sent
  Lengths prompt, output;
  int64_t ids = 0;  // prompts are of random ids below this
  uint64_t seed = 1;
};

struct PlannedRequest {
  double arrival = 0.0;  // seconds from the start
  std::vector<int32_t> prompt;
  int64_t output = 0;  // tokens
};

// The same options give the same requests; another rate changes nothing but the arrivals.
std::vector<PlannedRequest> make_workload(const WorkloadOptions& options);

}  // namespace nibble::traffic
