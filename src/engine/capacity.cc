#include "engine/capacity.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "base/error.h"
#include "ops/sequences.h"

namespace nibble::engine {
namespace {

int64_t pages_of(int64_t positions) { return (positions + ops::kPageTokens - 1) / ops::kPageTokens; }

std::string bytes_text(int64_t bytes) { return std::to_string(bytes) + " bytes"; }

}  // namespace

Capacity plan_capacity(const CapacityRequest& r, const cache::Shape& shape) {
  if (r.context < 0 || r.context > r.model_context) {
    throw Refusal({.what = "context " + std::to_string(r.context),
                   .seen = std::to_string(r.model_context) + " positions (config.json: max_position_embeddings)",
                   .rule = "a sequence may not be longer than the model was made for",
                   .fix = "a context of at most " + std::to_string(r.model_context) + ", or 0 for all of it"});
  }
  const int64_t budget = r.cache_bytes > 0 ? r.cache_bytes : r.available_bytes / 2;
  const int64_t slots = r.sequences * shape.bytes_per_slot();
  const int64_t fitting =
      shape.bytes_per_page() == 0 ? r.sequences * pages_of(r.model_context) : (budget - slots) / shape.bytes_per_page();
  const int64_t context = r.context > 0 ? r.context : std::min(r.model_context, fitting * ops::kPageTokens);
  if (budget < slots || fitting < pages_of(context) || context <= 0) {
    const int64_t needed = slots + std::max<int64_t>(1, pages_of(context)) * shape.bytes_per_page();
    throw Refusal({.what = std::to_string(r.sequences) + " sequences, context " + std::to_string(r.context),
                   .seen = bytes_text(budget) + " for the cache",
                   .rule = "each sequence has " + bytes_text(shape.bytes_per_slot()) + " of state and each 64 tokens " +
                           bytes_text(shape.bytes_per_page()) + ", so one sequence of that length needs " +
                           bytes_text(needed) + " in all",
                   .fix = "fewer sequences at once, a shorter context, or more memory for the cache"});
  }
  return {.context = context, .pages = std::min(fitting, r.sequences * pages_of(context))};
}

int64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  int64_t kib = 0;
  while (file >> key >> kib) {
    std::getline(file, unit);
    if (key == "MemAvailable:") return kib * 1024;
  }
  return int64_t{4} << 30;  // a machine that does not say: a laptop's worth
}

}  // namespace nibble::engine
