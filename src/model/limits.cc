#include "model/limits.h"

#include "model/plan_device.h"
#include "ops/kernel_table.h"
#include "ops/ops.h"

namespace nibble::model {
namespace {

template <class Args>
void nothing(Device&, const Args&) {}

template <class Args>
ops::Kernel<Args> nothing_for(ops::Kernel<Args> ops::KernelTable::*) {
  return nothing<Args>;
}

}  // namespace

PlanDevice::PlanDevice(const Device& planned_for) : planned_for_(planned_for) {
  kernels_.name = "plan";
  kernels_.scratch = planned_for.kernels().scratch;
  ops::for_each_kernel([&]<auto Member>(const char*) { kernels_.*Member = nothing_for(Member); });
}

size_t step_arena_bytes(const K3& model, const Device& device, DType dtype, const StepLimits& limits) {
  PlanDevice plan(device);
  constexpr size_t kEnough = size_t{1} << 56;
  Arena arena(plan.take(kEnough), kEnough);
  const int64_t pages = (limits.positions + ops::kPageTokens - 1) / ops::kPageTokens;
  cache::Cache cache(plan, model.cache_shape(dtype), pages * limits.sequences, limits.sequences);
  const auto ints = [&plan](int64_t count) {
    return View1<const int32_t>{reinterpret_cast<const int32_t*>(plan.take(static_cast<size_t>(count) * 4)), count};
  };
  Step step{.device = plan,
            .arena = arena,
            .cache = cache,
            .sequences = {.row_begin = ints(limits.sequences + 1),
                          .position = ints(limits.sequences),
                          .slot = ints(limits.sequences),
                          .row_sequence = ints(limits.rows),
                          .pages = {ints(limits.sequences * pages).data, limits.sequences, pages, pages}},
            .tokens = ints(limits.rows),
            .sampled = ints(limits.sampled),
            .max_positions = limits.positions,
            .logits = {}};
  model.forward(step);
  return arena.peak();
}

}  // namespace nibble::model
