// A config.json of any bytes is refused, or the plan it gives can name each of its first slots and find it again.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "checkpoint/config.h"
#include "checkpoint/tensor_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble::checkpoint;
  try {
    const Config config = parse_config({reinterpret_cast<const char*>(data), size}, "fuzz");
    const TensorPlan plan(config);
    for (int64_t slot = 0; slot < std::min<int64_t>(plan.slots(), 512); ++slot) {
      if (!plan.exists(slot)) continue;
      if (plan.describe(slot).rows < 1 || plan.find_stem(plan.stem(slot)) != slot) std::abort();
      const auto place = plan.locate(plan.published_name(slot, Part::kWeight));
      if (!place || place->slot != slot) std::abort();
    }
  } catch (const nibble::Refusal&) {
  }
  return 0;
}
