// The long soak: thousands of requests of all kinds, each held against itself alone. usage: soak [REQUESTS [SEED]]
#include "engine/soak.h"

#include <cstdio>
#include <cstdlib>

#include "engine/problems.h"

using namespace nibble;

namespace {

struct Setting {
  int64_t sequences, step_tokens;
  int64_t pages, checkpoints;  // of the cache
  int64_t suspended_bytes;
};
constexpr Setting kSettings[] = {{1, 64, 20, 8, 0}, {8, 29, 12, 6, 4'000'000}, {64, 256, 80, 40, 1'000'000'000}};

}  // namespace

int main(int argc, char** argv) {
  const int64_t requests = argc > 1 ? std::atoll(argv[1]) : 2000;
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  EngineOptions base;
  base.model = engine::model_directory();
  base.context = 512;
  base.threads = 1;
  engine::LoadedModel loaded(base);
  const cache::Shape shape = loaded.model.cache_shape(DType::kBf16);
  engine::Soak soak(loaded, base, seed, requests);
  std::printf("%ld requests, seed %lu, %ld tokens alone\n", requests, seed, soak.tokens_alone());
  std::fflush(stdout);

  size_t faults = 0;
  for (const Setting& s : kSettings) {
    EngineOptions o = base;
    o.max_sequences = s.sequences;
    o.step_tokens = s.step_tokens;
    o.checkpoint_bytes = s.checkpoints * cache::PrefixIndex::bytes_per_checkpoint(shape);
    o.checkpoint_interval = 64;
    o.suspended_bytes = s.suspended_bytes;
    o.cache_bytes = s.sequences * shape.bytes_per_slot() + o.checkpoint_bytes + s.pages * shape.bytes_per_page();
    const engine::Soak::Result result = soak.run(o, seed + static_cast<uint64_t>(s.sequences));
    for (const std::string& fault : result.faults) std::printf("%s\n", fault.c_str());
    faults += result.faults.size();
    const EngineStats& stats = result.stats;
    std::printf(
        "%ld sequences, %ld pages, %ld checkpoints: %ld whole, %ld cancelled, %ld late, %ld steps, %ld suspensions, "
        "%ld of %ld prompt tokens reused, %zu faults\n",
        s.sequences, s.pages, s.checkpoints, result.whole, result.cancelled, result.late, stats.steps,
        stats.suspensions, stats.prefix_hit_tokens, stats.prefix_query_tokens, result.faults.size());
    std::fflush(stdout);
  }
  return faults == 0 ? 0 : 1;
}
