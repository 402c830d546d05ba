// `nibble inspect`: what a checkpoint is, without running it.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/summary.h"
#include "cli/commands.h"

namespace nibble::cli {
namespace {

using checkpoint::Checkpoint;
using checkpoint::Config;
using checkpoint::Summary;
using nlohmann::ordered_json;

struct Options {
  std::string model;
  bool json = false, tensors = false, scales = false;
};

std::string with_commas(int64_t value) {
  std::string digits = std::to_string(value);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3) digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

// "[3584, 1536]"
std::string shape_text(const std::vector<int64_t>& shape) { return ordered_json(shape).dump(-1, ' '); }

void print_human(const Checkpoint& c, const Summary& s, double seconds) {
  const Config& f = c.config();
  std::printf("Kimi K3, %s\n", c.directory().c_str());
  std::printf("  declared      %s\n", f.declared_quantization.c_str());
  std::printf("  layers        %s: %s KDA, %s MLA; the first %s dense, then %s experts, %s a token\n",
              with_commas(f.num_hidden_layers).c_str(), with_commas(f.kda_layers()).c_str(),
              with_commas(f.mla_layers()).c_str(), with_commas(f.first_k_dense_replace).c_str(),
              with_commas(f.num_experts).c_str(), with_commas(f.num_experts_per_token).c_str());
  std::printf("  widths        hidden %s, latent %s, vocabulary %s, context %s\n", with_commas(f.hidden_size).c_str(),
              with_commas(f.routed_expert_hidden_size).c_str(), with_commas(f.vocab_size).c_str(),
              with_commas(f.max_position_embeddings).c_str());
  std::printf("  parameters    %s text, %s in all\n", with_commas(s.text_parameters).c_str(),
              with_commas(s.all_parameters).c_str());
  std::printf("  files         %s shards, %s tensors, %s bytes, opened in %.3f s\n\n",
              with_commas(static_cast<int64_t>(c.shards().size())).c_str(), with_commas(s.tensors).c_str(),
              with_commas(s.bytes).c_str(), seconds);
  std::printf("  %-20s %-10s %10s %22s %22s\n", "part", "format", "tensors", "parameters", "bytes");
  for (const checkpoint::PartSummary& row : s.parts) {
    std::printf("  %-20s %-10s %10s %22s %22s\n", row.part.c_str(), row.format.c_str(),
                with_commas(row.tensors).c_str(), with_commas(row.parameters).c_str(), with_commas(row.bytes).c_str());
  }
}

void print_tensors(const Checkpoint& c) {
  std::printf("\n");
  for (const Checkpoint::TensorInfo& t : c.tensors()) {
    std::printf("%.*s %.*s %s %s\n", static_cast<int>(t.name.size()), t.name.data(), static_cast<int>(t.dtype.size()),
                t.dtype.data(), shape_text(t.shape).c_str(), c.shards()[static_cast<size_t>(t.shard)].c_str());
  }
}

ordered_json to_json(const Checkpoint& c, const Summary& s, double seconds, bool tensors) {
  const Config& f = c.config();
  ordered_json parts = ordered_json::array();
  for (const checkpoint::PartSummary& row : s.parts) {
    parts.push_back({{"part", row.part},
                     {"format", row.format},
                     {"tensors", row.tensors},
                     {"parameters", row.parameters},
                     {"bytes", row.bytes}});
  }
  ordered_json out = {{"model", "kimi_k3"},
                      {"directory", c.directory().string()},
                      {"declared_quantization", f.declared_quantization},
                      {"layers",
                       {{"total", f.num_hidden_layers},
                        {"kda", f.kda_layers()},
                        {"mla", f.mla_layers()},
                        {"dense", f.first_k_dense_replace},
                        {"moe", f.num_hidden_layers - f.first_k_dense_replace}}},
                      {"experts", f.num_experts},
                      {"experts_per_token", f.num_experts_per_token},
                      {"vocab_size", f.vocab_size},
                      {"max_position_embeddings", f.max_position_embeddings},
                      {"parameters", {{"text", s.text_parameters}, {"all", s.all_parameters}}},
                      {"parts", parts},
                      {"shards", c.shards()},
                      {"tensor_count", s.tensors},
                      {"total_bytes", s.bytes},
                      {"open_seconds", seconds}};
  if (!tensors) return out;
  for (const Checkpoint::TensorInfo& t : c.tensors()) {
    out["tensors"].push_back({{"name", t.name}, {"dtype", t.dtype}, {"shape", t.shape}, {"shard", t.shard}});
  }
  return out;
}

void inspect(const Options& options) {
  const auto begin = std::chrono::steady_clock::now();
  const Checkpoint c = Checkpoint::open(options.model);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (options.scales) c.validate_all();
  const Summary s = summarize(c);
  if (options.json) {
    std::printf("%s\n", to_json(c, s, seconds, options.tensors).dump().c_str());
    return;
  }
  print_human(c, s, seconds);
  if (options.tensors) print_tensors(c);
}

}  // namespace

void add_inspect(CLI::App& app) {
  CLI::App* command = app.add_subcommand("inspect", "Say what a checkpoint is: layers, formats, sizes, what is wrong");
  const auto options = std::make_shared<Options>();
  command->add_option("-m,--model,model", options->model, "Checkpoint directory")->required();
  command->add_flag("--json", options->json, "Print one JSON object");
  command->add_flag("--tensors", options->tensors, "List every tensor too");
  command->add_flag("--scales", options->scales, "Read every quantisation scale and refuse what is no number");
  command->callback([options] { inspect(*options); });
}

}  // namespace nibble::cli
