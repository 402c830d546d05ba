// Whatever happens around a request, its tokens are those of the request alone. The long version is bench/soak.cc.
#include "engine/soak.h"

#include <gtest/gtest.h>

#include "engine/problems.h"
#include "testing/test_device.h"

namespace nibble::engine {
namespace {

constexpr int64_t kRequests = 24;

struct SoakCase {
  const char* name;
  int64_t sequences, step_tokens;
  int64_t pages, checkpoints;  // of the cache
  int64_t suspended_bytes;
};
constexpr int64_t kPlenty = int64_t{1} << 30;
constexpr SoakCase kCases[] = {
    {.name = "alone in the engine",
     .sequences = 1,
     .step_tokens = 64,
     .pages = 14,
     .checkpoints = 6,
     .suspended_bytes = 0},
    {.name = "steps of 5", .sequences = 3, .step_tokens = 5, .pages = 24, .checkpoints = 0, .suspended_bytes = kPlenty},
    {.name = "few pages",
     .sequences = 8,
     .step_tokens = 64,
     .pages = 9,
     .checkpoints = 5,
     .suspended_bytes = 3'000'000},
    {.name = "all at once",
     .sequences = 64,
     .step_tokens = 256,
     .pages = 100,
     .checkpoints = 40,
     .suspended_bytes = kPlenty},
};

EngineOptions base_options() {
  EngineOptions o;
  o.model = model_directory();
  o.device = testing::device_under_test();
  o.context = 512;
  o.threads = 1;
  return o;
}

// One test, so that the requests are run alone only once.
TEST(SoakTest, EveryTokenIsThatOfTheRequestAlone) {
  LoadedModel loaded(base_options());
  Soak soak(loaded, base_options(), /*seed=*/20, kRequests);
  const cache::Shape shape = loaded.model.cache_shape(DType::kBf16);
  const int64_t checkpoint = cache::PrefixIndex::bytes_per_checkpoint(shape);
  int64_t cancelled = 0, late = 0;
  for (const SoakCase& c : kCases) {
    SCOPED_TRACE(c.name);
    EngineOptions o = base_options();
    o.max_sequences = c.sequences;
    o.step_tokens = c.step_tokens;
    o.checkpoint_bytes = c.checkpoints * checkpoint;
    o.checkpoint_interval = 64;
    o.suspended_bytes = c.suspended_bytes;
    o.cache_bytes = c.sequences * shape.bytes_per_slot() + o.checkpoint_bytes + c.pages * shape.bytes_per_page();
    const Soak::Result result = soak.run(o, /*seed=*/static_cast<uint64_t>(c.sequences));
    for (const std::string& fault : result.faults) ADD_FAILURE() << fault;
    EXPECT_GT(result.whole, kRequests / 3);
    EXPECT_GT(result.stats.suspensions, 0);
    EXPECT_EQ(result.stats.pages_total, c.pages);
    EXPECT_EQ(result.stats.checkpoints_total, c.checkpoints);
    EXPECT_EQ(result.stats.prefix_hit_tokens > 0, c.checkpoints > 0);
    EXPECT_EQ(result.stats.suspended_bytes, 0);
    cancelled += result.cancelled;
    late += result.late;
  }
  EXPECT_GT(cancelled, 0);
  EXPECT_GT(late, 0);
}

}  // namespace
}  // namespace nibble::engine
