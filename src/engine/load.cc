#include "engine/load.h"

#include <algorithm>

#include "backend/open_device.h"
#include "base/error.h"
#include "cache/snapshot_file.h"
#include "engine/memory_plan.h"
#include "engine/validate.h"

namespace nibble::engine {
namespace {

std::function<void(int, int)> phase(const EngineOptions& options, std::string_view name) {
  if (!options.progress) return {};
  return [progress = options.progress, name](int done, int total) { progress(name, done, total); };
}

fp4::WeightFormat parse_dense(const std::string& name) {
  if (name == "bf16") return fp4::WeightFormat::kBf16;
  if (name == "fp8") return fp4::WeightFormat::kFp8Block;
  if (name == "mxfp8") return fp4::WeightFormat::kMxfp8;
  if (name == "mxfp4") return fp4::WeightFormat::kMxfp4;
  throw Refusal({.what = "dense " + name,
                 .seen = "\"" + name + "\"",
                 .rule = "the bf16 projections stay bf16, or become fp8, mxfp8 or mxfp4",
                 .fix = "bf16, fp8, mxfp8 or mxfp4"});
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
  check_count("max_sequences", options.max_sequences, 4096);
  check_count("step_tokens", options.step_tokens, 65536);
  check_interval(options.checkpoint_interval);
  check_suspend_directory(options.suspend_directory, "suspend_directory");
  parse_dense(options.dense);
  const backend::DeviceOptions device = {.device = options.device,
                                         .isa = options.isa,
                                         .threads = options.threads,
                                         .pinning = backend::parse_pinning(options.pinning),
                                         .numa = backend::parse_numa(options.numa)};
  const std::string refused = backend::place_memory(device);
  if (!refused.empty() && options.warn) options.warn(refused);
  return backend::open_device(device);
}

model::K3 load_model(const EngineOptions& options, const checkpoint::Checkpoint& checkpoint, Device& device) {
  check_memory(options, checkpoint, device);
  return model::K3::load(checkpoint, device, {.dense = parse_dense(options.dense), .progress = phase(options, "load")});
}

}  // namespace

void check_suspend_directory(const std::filesystem::path& directory, std::string_view option) {
  if (directory.empty()) return;
  try {
    cache::SnapshotFile::create(directory);
  } catch (const std::runtime_error& error) {
    throw Refusal({.what = std::string(option) + " " + directory.string(),
                   .seen = error.what(),
                   .rule = "a directory in which files can be made, for requests that have to make way",
                   .fix = "a directory on a disk with room, or none"});
  }
}

LoadedModel::LoadedModel(const EngineOptions& options)
    : device(open_device(options)),
      checkpoint(checkpoint::Checkpoint::open(options.model, {.progress = phase(options, "open")})),
      tokenizer(text::Tokenizer::load(options.model, checkpoint.config().vocab_size)),
      model(load_model(options, checkpoint, *device)),
      facts(gather_facts(checkpoint.config(), tokenizer)),
      constraints(tokenizer, facts.stop_ids) {
  if (options.mlock) checkpoint.lock(phase(options, "lock"));
}

void LoadedModel::prepare(Request& request) {
  validate(request, facts);
  if (request.constraint.none()) return;
  request.token_mask = constraints.compile(request.constraint, text::channel_of(request.prompt, tokenizer));
}

std::unique_ptr<Runner> make_runner(const EngineOptions& options, LoadedModel& loaded, int64_t sampled_rows) {
  const RunnerPlan plan = plan_runner(options, loaded.model, loaded.device->available_memory(), sampled_rows);
  loaded.facts.context = plan.context;
  return std::make_unique<Runner>(*loaded.device, loaded.model, plan.options);
}

}  // namespace nibble::engine
