#include "engine/memory_plan.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.h"
#include "engine/capacity.h"
#include "engine/validate.h"
#include "model/plan_device.h"

namespace nibble::engine {

ops::MlaForm parse_mla_form(const std::string& name) {
  if (name == "absorbed") return ops::MlaForm::kAbsorbed;
  if (name == "expanded") return ops::MlaForm::kExpanded;
  throw Refusal({.what = "mla_form " + name,
                 .seen = "\"" + name + "\"",
                 .rule = "latent attention is computed absorbed (less memory traffic) or expanded (as published)",
                 .fix = "absorbed or expanded"});
}

RunnerPlan plan_runner(const EngineOptions& options, const model::K3& model, int64_t available, int64_t sampled_rows) {
  const checkpoint::Config& config = model.config();
  const DType dtype = options.precision == Precision::kExact ? DType::kF32 : DType::kBf16;
  const cache::Shape shape = model.cache_shape(dtype);
  const Capacity capacity = plan_capacity({.context = options.context,
                                           .model_context = config.max_position_embeddings,
                                           .sequences = options.max_sequences,
                                           .cache_bytes = options.cache_bytes,
                                           .checkpoint_bytes = options.checkpoint_bytes,
                                           .available_bytes = available},
                                          shape);
  const int64_t bias = config.vocab_size + kMaxLogitBias + 2 * kMaxStopIds;  // entries a sequence
  // Logits of whole chunks, for who wants those of prompts, as far as they take little memory.
  constexpr int64_t kLogitBytes = int64_t{32} << 20;
  const int64_t chunk = std::min(options.step_tokens, kLogitBytes / (config.vocab_size * 4));
  const int64_t cache_bytes = capacity.pages * shape.bytes_per_page() + options.max_sequences * shape.bytes_per_slot();
  return {
      .options = {.limits = {.rows = std::max(options.step_tokens, options.max_sequences),
                             .sequences = options.max_sequences,
                             .sampled = std::max({sampled_rows, options.max_sequences, chunk}),
                             .positions = capacity.context},
                  .pages = capacity.pages,
                  .dtype = dtype,
                  .mla_form = parse_mla_form(options.mla_form),
                  .max_bias = options.max_sequences * bias,
                  .record_steps = options.record_steps,
                  .checkpoints = capacity.checkpoints,
                  .checkpoint_interval = options.checkpoint_interval,
                  .suspended_bytes = options.suspended_bytes >= 0 ? options.suspended_bytes : cache_bytes / 2,
                  .suspend_directory = options.suspend_directory,
                  .suspended_file_bytes = options.suspended_file_bytes >= 0 ? options.suspended_file_bytes
                                                                            : std::numeric_limits<int64_t>::max() / 2},
      .context = capacity.context,
      .cache_bytes = cache_bytes};
}

void check_memory(const EngineOptions& options, const checkpoint::Checkpoint& checkpoint, const Device& device) {
  if (device.shares_host_memory()) return;
  const int64_t available = device.available_memory();
  model::PlanDevice plan(device);
  const model::K3 model = model::K3::load(checkpoint, plan);
  const int64_t weights = plan.taken();
  const auto bytes = [](int64_t count) { return std::to_string(count) + " bytes"; };
  const auto refuse = [&](int64_t cache, int64_t step) {
    const std::string rest = cache == 0 ? "" : ", the cache " + bytes(cache) + ", a step " + bytes(step);
    throw Refusal(
        {.what = "device " + options.device,
         .seen = bytes(available) + " free on " + device.description(),
         .rule = "the weights need " + bytes(weights) + rest + ": " + bytes(weights + cache + step) + " in all",
         .fix = cache == 0 ? std::string("device cpu, or a device with more memory")
                           : "fewer sequences at once, a shorter context, fewer bytes for the cache"});
  };
  if (weights >= available) refuse(0, 0);
  const RunnerPlan runner = plan_runner(options, model, available - weights, 0);
  const int64_t step = Runner::step_bytes(device, model, runner.options);
  if (weights + runner.cache_bytes + step > available) refuse(runner.cache_bytes, step);
}

}  // namespace nibble::engine
