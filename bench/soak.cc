// The long soak: thousands of requests of all kinds, each held against itself alone. usage: soak [REQUESTS [SEED]]
#include "engine/soak.h"

#include <cstdio>
#include <cstdlib>

#include "engine/problems.h"

using namespace nibble;

int main(int argc, char** argv) {
  const int64_t requests = argc > 1 ? std::atoll(argv[1]) : 2000;
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  EngineOptions base;
  base.model = engine::model_directory();
  base.context = 512;
  base.threads = 1;
  engine::LoadedModel loaded(base);
  engine::Soak soak(loaded, base, seed, requests);
  std::printf("%ld requests, seed %lu, %ld tokens alone\n", requests, seed, soak.tokens_alone());

  size_t faults = 0;
  for (const int64_t sequences : {1, 8, 64}) {
    EngineOptions o = base;
    o.max_sequences = sequences;
    o.step_tokens = sequences == 8 ? 29 : 256;
    const engine::Soak::Result result = soak.run(o, seed + static_cast<uint64_t>(sequences));
    for (const std::string& fault : result.faults) std::printf("%s\n", fault.c_str());
    faults += result.faults.size();
    std::printf("%ld sequences: %ld whole, %ld cancelled, %ld late, %ld steps, %zu faults\n", sequences, result.whole,
                result.cancelled, result.late, result.stats.steps, result.faults.size());
    std::fflush(stdout);
  }
  return faults == 0 ? 0 : 1;
}
