// `nibble plan`: what a model needs and how fast this machine's memory lets it be, from its config alone.
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <optional>

#include "backend/open_device.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/read_bandwidth.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "plan/bounds.h"

namespace nibble::cli {
namespace {

using checkpoint::ModelPart;
using nlohmann::ordered_json;

constexpr int64_t kBatches[] = {1, 8, 32, 128};

struct PlanOptions {
  std::string model, config;
  int64_t ranks = 1, memory = 0, context = 0;  // memory and context 0: of the machine, and several
  std::string device = "cpu";
  std::optional<int64_t> device_memory;
  std::optional<double> bandwidth;  // GB/s
  bool json = false;
};

// Everything that is printed, in either form.
struct Plan {
  plan::Footprint f;
  std::string source;
  bool own_memory = false;  // a device's: all weights have to be in it
  int64_t memory = 0;
  std::string memory_from;     // "--memory"
  int64_t enough_ranks = 0;    // where the device's memory holds neither weights nor a sequence: the fewest
                               // of such devices that would; 0: no number would
  double gb_per_s = 0.0;       // 0: not known
  std::string bandwidth_from;  // "measured, 2 threads"
  std::vector<int64_t> contexts;
};

plan::Footprint footprint_of(const PlanOptions& o) {
  if (o.model.empty() == o.config.empty()) {
    throw Refusal({.what = "nibble plan",
                   .seen = o.model.empty() ? "neither -m nor --config" : "both -m and --config",
                   .rule = "sizes are those of a checkpoint, or follow from a config.json",
                   .fix = "-m models/k3-tiny, or --config config.json"});
  }
  if (o.model.empty()) {
    return plan::footprint(checkpoint::parse_config(read_file("--config", o.config), o.config), o.ranks);
  }
  ModelOptions model;
  model.model = o.model;
  return plan::footprint(checkpoint::Checkpoint::open(model_directory(model)), o.ranks);
}

std::vector<int64_t> contexts_of(const PlanOptions& o, int64_t most) {
  if (o.context > most) {
    throw Refusal({.what = fmt::format("--ctx-size {}", o.context),
                   .seen = fmt::format("{} positions (config.json: max_position_embeddings)", most),
                   .rule = "a sequence may not be longer than the model was made for",
                   .fix = fmt::format("--ctx-size {}", most)});
  }
  if (o.context > 0) return {o.context};
  std::vector<int64_t> out;
  for (const int64_t context : {4096, 32768, 131072, 1048576}) {
    if (context < most) out.push_back(context);
  }
  out.push_back(most);
  return out;
}

// The fewest devices of this memory that hold a sequence of `context` beside the weights; 0: no number does.
int64_t enough_ranks(const checkpoint::Config& config, int64_t memory, int64_t context) {
  for (const int64_t ranks : plan::possible_ranks(config)) {
    if (sequences_that_fit(plan::footprint(config, ranks), memory, context) > 0) return ranks;
  }
  return 0;
}

// Memory and bandwidth of a device, as it has them or as they are given: --device-memory needs no such device here.
void plan_device(const PlanOptions& o, Plan& p) {
  std::unique_ptr<Device> device;
  if (!o.device_memory) {
    device = backend::open_device({.device = o.device});
    if (device->shares_host_memory()) return;
  }
  if (o.memory > 0) {
    throw Refusal({.what = "--memory",
                   .seen = device == nullptr ? "--device-memory" : "--device " + o.device,
                   .rule = "weights, states and pages are all in the memory of the one or of the other",
                   .fix = "--memory for a CPU, --device-memory for a device with its own"});
  }
  p.own_memory = true;
  p.memory = device == nullptr ? *o.device_memory : device->available_memory();
  p.memory_from = device == nullptr ? "--device-memory" : "free on " + device->description();
  if (!o.bandwidth && device != nullptr) {
    p.gb_per_s = device->measure_peaks().copy_gb_per_s;
    p.bandwidth_from = "measured, a large copy";
  }
  p.enough_ranks = enough_ranks(p.f.config, p.memory, p.contexts.front());
}

Plan make_plan(const PlanOptions& o) {
  Plan p{.f = footprint_of(o), .source = o.model.empty() ? o.config : o.model, .contexts = {}};
  p.contexts = contexts_of(o, p.f.config.max_position_embeddings);
  plan_device(o, p);
  if (!p.own_memory) {
    p.memory = o.memory > 0 ? o.memory : available_host_memory();
    p.memory_from = o.memory > 0 ? "--memory" : "available now";
  }
  if (o.bandwidth) {
    p.gb_per_s = *o.bandwidth;
    p.bandwidth_from = "--bandwidth";
  } else if (!p.own_memory) {
    const int threads = backend::physical_cores();
    p.gb_per_s = measure_read_bandwidth(threads).gb_per_s;
    p.bandwidth_from = fmt::format("measured, {} threads", threads);
  }
  return p;
}

// "0.45 GB", or smaller units for smaller models.
std::string rounded(int64_t bytes) {
  const auto b = static_cast<double>(bytes);
  if (bytes < 1'000'000) return fmt::format("{:.2f} kB", b / 1e3);
  return bytes < 100'000'000 ? fmt::format("{:.2f} MB", b / 1e6) : fmt::format("{:.2f} GB", b / 1e9);
}

void print_parts(const plan::Footprint& f) {
  const bool ranks = f.ranks > 1;
  const auto row = [&](std::string_view name, const plan::Bytes& all, const plan::Bytes& one) {
    print(fmt::format("{:<20} {:>22} {:>20}", name, with_commas(all.stored), with_commas(all.read)));
    print(ranks ? fmt::format(" {:>20} {:>20}\n", with_commas(one.stored), with_commas(one.read)) : "\n");
  };
  print(fmt::format("{:<20} {:>22} {:>20}", "bytes", "stored", "a token reads"));
  print(ranks ? fmt::format(" {:>20} {:>20}\n", fmt::format("on one of {} ranks", f.ranks), "a token reads there")
              : "\n");
  for (size_t i = 0; i < f.parts.size(); ++i) row(name_of(static_cast<ModelPart>(i)), f.parts[i], f.rank_parts[i]);
  row("all", f.total, f.rank_total);
}

void print_human(const Plan& p) {
  const plan::Footprint& f = p.f;
  const checkpoint::Config& c = f.config;
  const plan::SequenceBytes& s = f.sequence;
  const char* where = f.ranks > 1 ? "on a rank " : "";
  print(fmt::format("{}: {} layers, {} KDA and {} MLA; {} experts a layer in {}, {} a token, {} bytes each\n\n",
                    p.source, c.num_hidden_layers, c.kda_layers(), c.mla_layers(), c.num_experts, f.expert_format,
                    c.num_experts_per_token, with_commas(f.one_expert)));
  print_parts(f);
  print(fmt::format("\nA sequence {}holds\n", where));
  print(fmt::format("{:<34} {:>16}  {} with the windows\n", "  KDA state", with_commas(s.state),
                    rounded(s.state + s.windows)));
  print(fmt::format("{:<34} {:>16}\n", "  convolution windows", with_commas(s.windows)));
  print(fmt::format("{:<34} {:>16}\n", "  records of the open segment", with_commas(s.records)));
  print(fmt::format("{:<34} {:>16}\n", "  MLA latents, each token", with_commas(s.mla_per_token)));
  print(fmt::format("A token reads and writes {} of state; in segments of 16, {}\n", rounded(s.state_traffic()),
                    rounded(s.segment_traffic())));

  print(fmt::format("\nMemory {}: {} ({})\n",
                    f.ranks > 1    ? "of a rank"
                    : p.own_memory ? "of the device"
                                   : "of this machine",
                    rounded(p.memory), p.memory_from));
  const int64_t left = p.memory - f.rank_total.stored;
  print(left > 0 ? fmt::format("  the weights fit, {} are left\n", rounded(left))
                 : fmt::format(
                       "  the weights do not fit: {} are lacking; {}\n", rounded(-left),
                       p.own_memory ? "a run is refused before it loads any" : "what is not resident comes from disk"));
  if (p.own_memory && sequences_that_fit(f, p.memory, p.contexts.front()) == 0) {
    print(p.enough_ranks == 0
              ? "  no number of such devices holds them\n"
              : fmt::format("  {} such devices hold them: --ranks {}\n", p.enough_ranks, p.enough_ranks));
  }
  for (const int64_t context : p.contexts) {
    print(fmt::format("  sequences of {:>9} tokens that fit {:>8}\n", with_commas(context),
                      with_commas(sequences_that_fit(f, p.memory, context))));
  }
  print(fmt::format("  tokens that one sequence may have {:>14}\n", with_commas(context_that_fits(f, p.memory))));

  if (p.gb_per_s == 0) {
    print("\nHow fast it may be follows from --bandwidth\n");
    return;
  }
  print(fmt::format("\nAt most, reading {:.1f} GB/s ({}), tokens a second of all sequences\n", p.gb_per_s,
                    p.bandwidth_from));
  print(fmt::format("{:>10} {:>14}", "at once", "experts read"));
  for (const int64_t context : p.contexts) print(fmt::format(" {:>16}", fmt::format("at {}", with_commas(context))));
  print("\n");
  for (const int64_t batch : kBatches) {
    print(fmt::format("{:>10} {:>14.1f}", batch, plan::distinct_experts(c, batch)));
    for (const int64_t context : p.contexts) {
      print(fmt::format(" {:>16.2f}", tokens_per_second(f, p.gb_per_s, batch, context)));
    }
    print("\n");
  }
}

ordered_json to_json(const plan::Bytes& b) { return {{"stored", b.stored}, {"read_per_token", b.read}}; }

ordered_json to_json(const Plan& p) {
  const plan::Footprint& f = p.f;
  ordered_json parts = ordered_json::array(), fits = ordered_json::array(), bounds = ordered_json::array();
  for (size_t i = 0; i < f.parts.size(); ++i) {
    parts.push_back({{"part", name_of(static_cast<ModelPart>(i))},
                     {"all", to_json(f.parts[i])},
                     {"rank", to_json(f.rank_parts[i])}});
  }
  for (const int64_t context : p.contexts) {
    fits.push_back({{"context", context}, {"sequences", sequences_that_fit(f, p.memory, context)}});
    for (const int64_t batch : kBatches) {
      if (p.gb_per_s == 0) break;
      bounds.push_back({{"batch", batch},
                        {"context", context},
                        {"step_bytes", step_bytes(f, batch, context)},
                        {"tokens_per_s", tokens_per_second(f, p.gb_per_s, batch, context)}});
    }
  }
  const plan::SequenceBytes& s = f.sequence;
  return {{"source", p.source},
          {"ranks", f.ranks},
          {"expert_format", f.expert_format},
          {"expert_bytes", f.one_expert},
          {"parts", parts},
          {"total", to_json(f.total)},
          {"rank_total", to_json(f.rank_total)},
          {"sequence",
           {{"kda_state", s.state},
            {"windows", s.windows},
            {"records", s.records},
            {"mla_per_token", s.mla_per_token},
            {"state_traffic", s.state_traffic()},
            {"segment_traffic", s.segment_traffic()}}},
          {"memory", p.memory},
          {"memory_of", p.own_memory ? "device" : "machine"},
          {"enough_ranks", p.own_memory ? ordered_json(p.enough_ranks) : ordered_json(nullptr)},
          {"weights_fit", p.memory > f.rank_total.stored},
          {"fits", fits},
          {"longest_context", context_that_fits(f, p.memory)},
          {"read_gb_per_s", p.gb_per_s > 0 ? ordered_json(p.gb_per_s) : ordered_json(nullptr)},
          {"bandwidth_measured", p.bandwidth_from.starts_with("measured")},
          {"bounds", bounds}};
}

}  // namespace

void add_plan(CLI::App& app) {
  CLI::App* command = app.add_subcommand("plan", "Say what a model needs, what fits, and how fast memory lets it be");
  const auto o = std::make_shared<PlanOptions>();
  command->add_option("-m,--model", o->model, "Checkpoint directory")->type_name("DIR");
  command->add_option("--config", o->config, "A config.json alone; - is stdin")->type_name("FILE");
  const auto add = [&](const char* names, const char* type, const char* what, auto take) {
    command->add_option_function<std::string>(names, take, what)->type_name(type);
  };
  add("--ranks,--tensor-parallel-size", "N", "Split over so many ranks (default 1)",
      [o](const std::string& text) { o->ranks = parse_count("--ranks", text); });
  add("--memory", "BYTES", "Of this machine, or of each rank, e.g. 64G (default: what is available now)",
      [o](const std::string& text) { o->memory = parse_bytes("--memory", text); });
  command->add_option("--device", o->device, "cpu, cuda, cuda:N or auto: whose memory and bandwidth count")
      ->capture_default_str();
  add("--device-memory", "BYTES", "Of a device with memory of its own, of each rank, e.g. 141g; it need not be here",
      [o](const std::string& text) { o->device_memory = parse_bytes("--device-memory", text); });
  add("--bandwidth", "GB/s", "Of memory reads, of each rank (default: measured, a quarter of a second)",
      [o](const std::string& text) {
        o->bandwidth = parse_real("--bandwidth", text, {0, 1e9, /*open=*/true});
      });
  add("-c,--ctx-size,--max-model-len", "N", "Tokens of a sequence (default: several lengths)",
      [o](const std::string& text) { o->context = parse_count("--ctx-size", text); });
  command->add_flag("--json", o->json, "Print one JSON object");
  command->callback([o] {
    const Plan p = make_plan(*o);
    o->json ? print(to_json(p).dump() + "\n") : print_human(p);
  });
}

}  // namespace nibble::cli
