#include "engine/load.h"

#include <algorithm>

#include "backend/open_device.h"
#include "base/error.h"
#include "engine/capacity.h"
#include "engine/validate.h"

namespace nibble::engine {
namespace {

std::function<void(int, int)> phase(const EngineOptions& options, std::string_view name) {
  if (!options.progress) return {};
  return [progress = options.progress, name](int done, int total) { progress(name, done, total); };
}

ops::MlaForm parse_mla_form(const std::string& name) {
  if (name == "absorbed") return ops::MlaForm::kAbsorbed;
  if (name == "expanded") return ops::MlaForm::kExpanded;
  throw Refusal({.what = "mla_form " + name,
                 .seen = "\"" + name + "\"",
                 .rule = "latent attention is computed absorbed (less memory traffic) or expanded (as published)",
                 .fix = "absorbed or expanded"});
}

fp4::WeightFormat parse_dense(const std::string& name) {
  if (name == "bf16") return fp4::WeightFormat::kBf16;
  if (name == "fp8") return fp4::WeightFormat::kFp8Block;
  if (name == "mxfp4") return fp4::WeightFormat::kMxfp4;
  throw Refusal({.what = "dense " + name,
                 .seen = "\"" + name + "\"",
                 .rule = "the bf16 projections stay bf16, or become fp8 or mxfp4",
                 .fix = "bf16, fp8 or mxfp4"});
}

void check_count(const char* what, int64_t seen, int64_t most) {
  if (seen >= 1 && seen <= most) return;
  throw Refusal({.what = std::string(what) + " " + std::to_string(seen),
                 .seen = std::to_string(seen),
                 .rule = "from 1 to " + std::to_string(most),
                 .fix = "a number in that range"});
}

void check_interval(int64_t tokens) {
  if (tokens > 0 && tokens % ops::kPageTokens == 0) return;
  throw Refusal({.what = "checkpoint_interval " + std::to_string(tokens),
                 .seen = std::to_string(tokens),
                 .rule = "a multiple of 64, the tokens of a page",
                 .fix = "64, 128, and so on"});
}

ModelFacts gather_facts(const checkpoint::Config& config, const text::Tokenizer& tokenizer) {
  ModelFacts facts;
  facts.vocabulary = config.vocab_size;
  const text::ControlTokens& control = tokenizer.control();
  for (const std::optional<int32_t>& id : {control.pad, control.unknown}) {
    if (id) facts.never_sampled.push_back(*id);
  }
  facts.turn_end = control.end_of_message;
  facts.stop_ids = config.eos_token_id;
  for (const int32_t id : tokenizer.stop_ids()) {
    const auto known = [id](const std::vector<int32_t>& ids) {
      return std::find(ids.begin(), ids.end(), id) != ids.end();
    };
    if (!known(facts.stop_ids) && !known(facts.never_sampled)) facts.stop_ids.push_back(id);
  }
  return facts;
}

// The options that need no checkpoint are checked before one is opened.
std::unique_ptr<Device> open_device(const EngineOptions& options) {
  parse_mla_form(options.mla_form);
  parse_dense(options.dense);
  check_count("max_sequences", options.max_sequences, 4096);
  check_count("step_tokens", options.step_tokens, 65536);
  check_interval(options.checkpoint_interval);
  return backend::open_device({.device = options.device,
                               .isa = options.isa,
                               .threads = options.threads,
                               .pinning = backend::parse_pinning(options.pinning)});
}

}  // namespace

LoadedModel::LoadedModel(const EngineOptions& options)
    : device(open_device(options)),
      checkpoint(checkpoint::Checkpoint::open(options.model, {.progress = phase(options, "open")})),
      tokenizer(text::Tokenizer::load(options.model, checkpoint.config().vocab_size)),
      model(model::K3::load(checkpoint, *device,
                            {.dense = parse_dense(options.dense), .progress = phase(options, "load")})),
      facts(gather_facts(checkpoint.config(), tokenizer)) {
  if (options.mlock) checkpoint.lock(phase(options, "lock"));
}

std::unique_ptr<Runner> make_runner(const EngineOptions& options, LoadedModel& loaded, int64_t sampled_rows) {
  const checkpoint::Config& config = loaded.checkpoint.config();
  const DType dtype = options.precision == Precision::kExact ? DType::kF32 : DType::kBf16;
  const Capacity capacity = plan_capacity({.context = options.context,
                                           .model_context = config.max_position_embeddings,
                                           .sequences = options.max_sequences,
                                           .cache_bytes = options.cache_bytes,
                                           .checkpoint_bytes = options.checkpoint_bytes,
                                           .available_bytes = available_memory()},
                                          loaded.model.cache_shape(dtype));
  loaded.facts.context = capacity.context;
  const int64_t bias = config.vocab_size + kMaxLogitBias + 2 * kMaxStopIds;  // entries a sequence
  // Logits of whole chunks, for who wants those of prompts, as far as they take little memory.
  constexpr int64_t kLogitBytes = int64_t{32} << 20;
  const int64_t chunk = std::min(options.step_tokens, kLogitBytes / (config.vocab_size * 4));
  const cache::Shape shape = loaded.model.cache_shape(dtype);
  const int64_t cache_bytes = capacity.pages * shape.bytes_per_page() + options.max_sequences * shape.bytes_per_slot();
  return std::make_unique<Runner>(
      *loaded.device, loaded.model,
      RunnerOptions{.limits = {.rows = std::max(options.step_tokens, options.max_sequences),
                               .sequences = options.max_sequences,
                               .sampled = std::max({sampled_rows, options.max_sequences, chunk}),
                               .positions = capacity.context},
                    .pages = capacity.pages,
                    .dtype = dtype,
                    .mla_form = parse_mla_form(options.mla_form),
                    .max_bias = options.max_sequences * bias,
                    .checkpoints = capacity.checkpoints,
                    .checkpoint_interval = options.checkpoint_interval,
                    .suspended_bytes = options.suspended_bytes >= 0 ? options.suspended_bytes : cache_bytes / 2});
}

}  // namespace nibble::engine
