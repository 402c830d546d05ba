#include "engine/capacity.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "cache/prefix_index.h"
#include "ops/sequences.h"

namespace nibble::engine {
namespace {

std::string bytes_text(int64_t bytes) { return std::to_string(bytes) + " bytes"; }

// As many as were asked for. Where nothing was: up to a quarter of what the slots leave, no more than four a sequence,
// and none that a sequence of the context asked for would miss.
int64_t count_checkpoints(const CapacityRequest& r, const cache::Shape& shape, int64_t left) {
  const int64_t each = cache::PrefixIndex::bytes_per_checkpoint(shape);
  if (each == 0) return 0;
  if (r.checkpoint_bytes >= 0) return r.checkpoint_bytes / each;
  const int64_t spare = left - cache::pages_of(r.context) * shape.bytes_per_page();
  return std::clamp<int64_t>(std::min(left / 4, spare) / each, 0, 4 * r.sequences);
}

}  // namespace

Capacity plan_capacity(const CapacityRequest& r, const cache::Shape& shape) {
  if (r.context < 0 || r.context > r.model_context) {
    throw Refusal({.what = "context " + std::to_string(r.context),
                   .seen = std::to_string(r.model_context) + " positions (config.json: max_position_embeddings)",
                   .rule = "a sequence may not be longer than the model was made for",
                   .fix = "a context of at most " + std::to_string(r.model_context) + ", or 0 for all of it"});
  }
  const int64_t budget = r.cache_bytes > 0 ? r.cache_bytes : r.available_bytes / 2;
  const int64_t slots = r.sequences * shape.bytes_per_slot(), page = shape.bytes_per_page();
  const int64_t checkpoints = count_checkpoints(r, shape, budget - slots);
  const int64_t copies = checkpoints * cache::PrefixIndex::bytes_per_checkpoint(shape);
  const int64_t fitting = page == 0 ? r.sequences * cache::pages_of(r.model_context) : (budget - slots - copies) / page;
  const int64_t context = r.context > 0 ? r.context : std::min(r.model_context, fitting * ops::kPageTokens);
  if (budget < slots + copies || fitting < cache::pages_of(context) || context <= 0) {
    const int64_t needed = slots + copies + std::max<int64_t>(1, cache::pages_of(context)) * page;
    throw Refusal({.what = std::to_string(r.sequences) + " sequences, context " + std::to_string(r.context),
                   .seen = bytes_text(budget) + " for the cache",
                   .rule = "each sequence has " + bytes_text(shape.bytes_per_slot()) + " of state (" +
                           bytes_text(slots) + "), checkpoints have " + bytes_text(copies) + ", each 64 tokens have " +
                           bytes_text(page) + ", so one sequence of that length needs " + bytes_text(needed) +
                           " in all",
                   .fix = "fewer sequences at once, a shorter context, fewer bytes for checkpoints, or more memory for "
                          "the cache"});
  }
  const int64_t kept = checkpoints > 0 ? 2 : 1;  // as many again for what is kept for reuse
  return {.context = context,
          .pages = std::min(fitting, kept * r.sequences * cache::pages_of(context)),
          .checkpoints = checkpoints};
}

}  // namespace nibble::engine
