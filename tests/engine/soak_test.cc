// Whatever happens around a request, its tokens are those of the request alone. The long version is bench/soak.cc.
#include "engine/soak.h"

#include <gtest/gtest.h>

#include "engine/problems.h"

namespace nibble::engine {
namespace {

constexpr int64_t kRequests = 30;

struct SoakCase {
  int64_t sequences, step_tokens;
};

EngineOptions base_options() {
  EngineOptions o;
  o.model = model_directory();
  o.context = 512;
  o.threads = 1;
  return o;
}

// One test, so that the requests are run alone only once.
TEST(SoakTest, EveryTokenIsThatOfTheRequestAlone) {
  LoadedModel loaded(base_options());
  Soak soak(loaded, base_options(), /*seed=*/20, kRequests);
  int64_t cancelled = 0, late = 0;
  for (const SoakCase& c : {SoakCase{1, 64}, SoakCase{3, 5}, SoakCase{8, 64}, SoakCase{64, 256}}) {
    SCOPED_TRACE(std::to_string(c.sequences) + " sequences, steps of " + std::to_string(c.step_tokens));
    EngineOptions o = base_options();
    o.max_sequences = c.sequences;
    o.step_tokens = c.step_tokens;
    const Soak::Result result = soak.run(o, /*seed=*/static_cast<uint64_t>(c.sequences));
    for (const std::string& fault : result.faults) ADD_FAILURE() << fault;
    EXPECT_GT(result.whole, kRequests / 3);
    cancelled += result.cancelled;
    late += result.late;
  }
  EXPECT_GT(cancelled, 0);
  EXPECT_GT(late, 0);
}

}  // namespace
}  // namespace nibble::engine
