// `nibble explain`: each decision that a run with these flags would take, as a tree, without running it.
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <vector>

#include "backend/open_device.h"
#include "cache/prefix_index.h"
#include "checkpoint/summary.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/output.h"
#include "engine/capacity.h"
#include "plan/footprint.h"
#include "text/generation_defaults.h"
#include "text/tokenizer.h"

namespace nibble::cli {
namespace {

using checkpoint::Checkpoint;
using nlohmann::ordered_json;

// How a decision came about: "auto" (ours), "set" (a flag), "require" (a flag that forbids anything else), "off" (a
// choice that was not taken up), "fixed" (there is nothing to choose).
struct Decision {
  std::string name, value, how, why;
  std::vector<Decision> parts = {};
};

struct Options {
  ModelOptions model;
  int64_t sequences = 1;
  std::string suspend_directory;
  bool json = false;
};

Decision explain_threads(const ModelOptions& o, const Device& device) {
  const bool pinned = !backend::pinned_processors(device_options(o)).empty();
  Decision pinning{.name = "pinned",
                   .value = pinned ? "yes" : "no",
                   .how = o.pinning == "auto" ? "auto" : "set",
                   .why = o.pinning != "auto" ? "--pin " + o.pinning
                          : pinned            ? "several NUMA nodes, and a thread a core"
                          : o.threads != 0    ? "--threads leaves room for others"
                                              : "one NUMA node"};
  const backend::MemoryPlan plan = backend::planned_memory(device_options(o));
  Decision memory{.name = "memory",
                  .value = plan.nodes.empty() ? "where the system puts it"
                                              : fmt::format("interleaved over nodes {}", fmt::join(plan.nodes, ", ")),
                  .how = o.numa == "auto" ? "auto" : "set",
                  .why = (o.numa == "auto" ? "" : "--numa " + o.numa + ": ") + std::string(plan.why)};
  return {.name = "threads",
          .value = std::to_string(device.concurrency()),
          .how = o.threads == 0 ? "auto" : "set",
          .why = o.threads == 0 ? "one a physical core that this process may use" : "--threads",
          .parts = {pinning, memory}};
}

Decision explain_device(const ModelOptions& o, const Device& device) {
  const std::string name(device.name());  // "cpu avx2"
  const std::string isa = name.substr(name.find(' ') + 1);
  Decision kernels{.name = "kernels",
                   .value = isa,
                   .how = o.isa.empty() ? "auto" : "set",
                   .why = o.isa.empty() ? "the fastest of this machine at one row" : "--isa"};
  for (const backend::KernelSet& set : backend::kernel_sets()) {
    const bool chosen = set.isa == isa;
    kernels.parts.push_back({.name = std::string(set.isa),
                             .value = chosen          ? "chosen"
                                      : set.available ? "could run"
                                                      : "cannot run",
                             .how = chosen ? kernels.how : "off",
                             .why = fmt::format("needs {}", set.needs)});
  }
  kernels.parts.push_back({.name = "--require",
                           .value = o.require.empty() ? "nothing" : o.require,
                           .how = o.require.empty() ? "off" : "require",
                           .why = o.require.empty() ? "any of the above would do" : "anything else would be refused"});
  const std::string kind = name.substr(0, name.find(' '));
  if (kind != "cpu") kernels.why = "the device's architecture";
  return {.name = "device",
          .value = kind,
          .how = o.device == "auto" ? "auto" : "set",
          .why = o.device != "auto" ? "--device"
                 : kind == "cpu"    ? "no other that this build has kernels for"
                                    : device.description(),
          .parts = {kernels, kind == "cpu" ? explain_threads(o, device)
                                           : Decision{.name = "memory",
                                                      .value = with_commas(device.available_memory()) + " bytes",
                                                      .how = "fixed",
                                                      .why = "free on " + device.description()}}};
}

// Why a part is what it is: the tensors' names and dtypes decide, never a list in the config.
std::string reason_of(const std::string& format) {
  if (format == "mxfp4")
    return "weight_packed with a scale byte for 32 weights; kernels read it as it lies in the file";
  if (format == "nvfp4")
    return "packed codes with a scale for 16 weights and one a tensor; read as it lies in the file";
  if (format == "fp8-block") return "FP8 values with a scale for each tile of 128 x 128; read as it lies in the file";
  if (format == "bf16") return "published so; matrices are read as they lie in the file";
  if (format == "f32") return "published so";
  return "not part of the text model";
}

Decision explain_weights(const Checkpoint& c) {
  const checkpoint::Summary summary = summarize(c);
  Decision out{.name = "weights",
               .value = with_commas(summary.bytes) + " bytes",
               .how = "fixed",
               .why = fmt::format("mapped, not copied; quantization_config says {}, the tensors decide",
                                  c.config().declared_quantization)};
  for (const checkpoint::PartSummary& p : summary.parts) {
    out.parts.push_back({.name = p.part,
                         .value = fmt::format("{}, {} bytes", p.format, with_commas(p.bytes)),
                         .how = "fixed",
                         .why = reason_of(p.format)});
  }
  return out;
}

Decision explain_arithmetic(const ModelOptions& o) {
  const bool exact = o.precision == "exact", absorbed = o.mla_form == "absorbed";
  return {.name = "arithmetic",
          .value = o.precision,
          .how = exact ? "set" : "auto",
          .why = "no result depends on batch, chunks or threads",
          .parts = {{.name = "activations",
                     .value = exact ? "fp32" : "bf16",
                     .how = exact ? "set" : "auto",
                     .why = exact ? "--precision exact" : "rounded where the published code rounds them"},
                    {.name = "MLA",
                     .value = o.mla_form,
                     .how = absorbed ? "auto" : "set",
                     .why = absorbed ? "kv_b_proj is applied to queries and sums, so that latents alone are read"
                                     : "--mla expanded: keys and values are made from the latents, as published"},
                    {.name = "projections",
                     .value = o.dense,
                     .how = o.dense == "bf16" ? "auto" : "set",
                     .why = o.dense == "bf16" ? "as published" : "--dense: rewritten on load (docs/fidelity.md)"},
                    {.name = "KDA",
                     .value = "segments of 16",
                     .how = "fixed",
                     .why = "prompts, single tokens and drafts are the same bits (docs/adr/0002)"}}};
}

Decision explain_cache(const Options& o, const Device& device, const Checkpoint& c) {
  const checkpoint::Config& f = c.config();
  const cache::Shape shape =
      plan::cache_shape(f, /*ranks=*/1, o.model.precision == "exact" ? DType::kF32 : DType::kBf16);
  const int64_t available = device.available_memory();
  const engine::Capacity capacity = engine::plan_capacity({.context = o.model.context,
                                                           .model_context = f.max_position_embeddings,
                                                           .sequences = o.sequences,
                                                           .checkpoint_bytes = -1,
                                                           .available_bytes = available},
                                                          shape);
  const int64_t slots = o.sequences * shape.bytes_per_slot(), pages = capacity.pages * shape.bytes_per_page();
  const int64_t copy = cache::PrefixIndex::bytes_per_checkpoint(shape);
  const bool whole = capacity.context == f.max_position_embeddings, files = !o.suspend_directory.empty();
  return {.name = "cache",
          .value = with_commas(slots + pages + capacity.checkpoints * copy) + " bytes",
          .how = "auto",
          .why = fmt::format("what {} sequence{} can need, at most half of the {} bytes available", o.sequences,
                             o.sequences == 1 ? "" : "s", with_commas(available)),
          .parts = {
              {.name = "context",
               .value = with_commas(capacity.context) + " tokens",
               .how = o.model.context > 0 ? "set" : "auto",
               .why = o.model.context > 0 ? "--ctx-size"
                      : whole             ? "max_position_embeddings"
                                          : "what the memory holds"},
              {.name = "slots",
               .value = fmt::format("{} of {} bytes", o.sequences, with_commas(shape.bytes_per_slot())),
               .how = "fixed",
               .why = "one a sequence: KDA state, windows, records of the open segment"},
              {.name = "checkpoints",
               .value = fmt::format("{} of {} bytes", capacity.checkpoints, with_commas(copy)),
               .how = capacity.checkpoints > 0 ? "auto" : "off",
               .why = "copies of KDA state that later prompts begin from: a quarter of the cache at most"},
              {.name = "pages",
               .value = fmt::format("{} of {} bytes", with_commas(capacity.pages), with_commas(shape.bytes_per_page())),
               .how = "fixed",
               .why = "64 tokens of MLA latents each"},
              {.name = "suspended",
               .value = fmt::format("{} bytes beside it at most", with_commas((slots + pages) / 2)),
               .how = "auto",
               .why = "host memory for requests that have to make way, half as much as slots and pages",
               .parts = {{.name = "files",
                          .value = files ? o.suspend_directory : "none",
                          .how = files ? "set" : "off",
                          .why = files ? "--suspend-dir: what has no room there" : "what has no room runs anew"}}}}};
}

Decision explain_text(const ModelOptions& o, const Checkpoint& c) {
  const auto tokenizer = text::Tokenizer::load(c.directory(), c.config().vocab_size);
  std::vector<int32_t> stops = c.config().eos_token_id;
  for (const int32_t id : tokenizer.stop_ids()) {
    if (std::find(stops.begin(), stops.end(), id) == stops.end()) stops.push_back(id);
  }
  const auto effort = text::load_generation_defaults(model_directory(o)).effort;
  constexpr const char* kEfforts[] = {"low", "high", "max"};
  return {.name = "text",
          .value = fmt::format("{} tokens", with_commas(tokenizer.vocab_size())),
          .how = "fixed",
          .why = "tiktoken.model and tokenizer_config.json",
          .parts = {{.name = "stop ids",
                     .value = fmt::format("{}", fmt::join(stops, ", ")),
                     .how = "fixed",
                     .why = "eos_token_id of config.json, and the tokenizer's ends"},
                    {.name = "thinking effort",
                     .value = effort ? kEfforts[static_cast<size_t>(*effort)] : "not said",
                     .how = "auto",
                     .why = "generation_config.json; --effort of chat and generate sets it"}}};
}

Decision explain(const Options& o) {
  const auto device = open_device(o.model);
  const Checkpoint c = Checkpoint::open(model_directory(o.model));
  const checkpoint::Config& f = c.config();
  return {.name = "model",
          .value = c.directory().string(),
          .how = "set",
          .why = fmt::format("{} layers: {} KDA, {} MLA; {} dense, {} of {} experts, {} a token", f.num_hidden_layers,
                             f.kda_layers(), f.mla_layers(), f.first_k_dense_replace,
                             f.num_hidden_layers - f.first_k_dense_replace, f.num_experts, f.num_experts_per_token),
          .parts = {explain_device(o.model, *device), explain_weights(c), explain_arithmetic(o.model),
                    explain_cache(o, *device, c), explain_text(o.model, c)}};
}

void print_tree(const Decision& d, const std::string& first, const std::string& rest) {
  print(fmt::format("{}{}: {} [{}] {}\n", first, d.name, d.value, d.how, d.why));
  for (size_t i = 0; i < d.parts.size(); ++i) {
    const bool last = i + 1 == d.parts.size();
    print_tree(d.parts[i], rest + (last ? "`- " : "|- "), rest + (last ? "   " : "|  "));
  }
}

ordered_json to_json(const Decision& d) {
  ordered_json out = {{"name", d.name}, {"value", d.value}, {"how", d.how}, {"why", d.why}};
  for (const Decision& part : d.parts) out["parts"].push_back(to_json(part));
  return out;
}

}  // namespace

void add_explain(CLI::App& app) {
  CLI::App* command = app.add_subcommand("explain", "Show each decision that a run would take, and why");
  const auto o = std::make_shared<Options>();
  add_model_options(*command, o->model, "bf16");
  command->add_option("--max-num-seqs,--parallel", o->sequences, "Sequences at once, for the cache")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  add_suspend_option(*command, o->suspend_directory);
  command->add_flag("--json", o->json, "Print one JSON object");
  command->callback([o] {
    const Decision root = explain(*o);
    o->json ? print(to_json(root).dump() + "\n") : print_tree(root, "", "");
  });
}

}  // namespace nibble::cli
