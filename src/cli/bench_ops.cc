// `nibble bench ops`: how near the kernels come to what this machine's memory and multipliers can do.
#include "cli/bench_ops.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/host_memory.h"
#include "base/multiply_peak.h"
#include "base/read_bandwidth.h"
#include "checkpoint/synth.h"
#include "cli/bench.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "plan/bounds.h"
#include "traffic/plot.h"
#include "traffic/run.h"

namespace nibble::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct OpsOptions {
  ModelOptions model;  // its device only
  std::optional<std::string> only;
  std::string svg;
  bool json = false;
};

// Measured anew for each row, right before it: on a shared machine a limit of half a minute ago is another machine's.
double measure(Limit limit, int threads) {
  if (limit == Limit::kReadBandwidth) return measure_read_bandwidth(threads).median_gb_per_s;
  return measure_multiply_peak(threads, limit == Limit::kMultiplyAdd ? Operands::kBf16 : Operands::kF32).gflop_per_s;
}

struct OpRow {
  std::string_view name;
  double value = 0.0;
  std::string_view unit;
  std::string_view limit;
  double limit_value = 0.0;
  int64_t runs = 0;
  double share() const { return value / limit_value; }
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Seconds of single calls: for about a second and a half, at least five of them.
std::vector<double> time_calls(const OpBench& bench) {
  constexpr double kSeconds = 1.5;
  std::vector<double> out;
  bench.call(0);  // touches what is touched for the first time
  double total = 0.0;
  for (int64_t i = 1; out.size() < 5 || (total < kSeconds && out.size() < 1000); ++i) {
    const auto begin = Clock::now();
    bench.call(i);
    out.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    total += out.back();
  }
  return out;
}

OpRow time_op(std::string_view name, Device& device, BenchMemory& memory, int threads) {
  const OpBench bench = make_op_bench(name, memory);
  const double limit_value = measure(bench.limit, threads);
  const std::vector<double> seconds = time_calls(bench);
  device.synchronize();
  return {.name = name,
          .value = bench.work / median(seconds) / 1e9,
          .unit = bench.limit == Limit::kReadBandwidth ? "GB/s" : "GFLOP/s",
          .limit = name_of(bench.limit),
          .limit_value = limit_value,
          .runs = static_cast<int64_t>(seconds.size())};
}

// Where files of up to `bytes` go that are to be in memory: the temporary directory, or the file system that is memory
// itself where it and memory have the room, and TMPDIR asks for no other. A disk's pages are in memory as well once
// they are touched, but on a virtual machine with shadowed page tables they were read at a third of its speed.
std::filesystem::path directory_in_memory(int64_t bytes) {
  const char* memory = "/dev/shm";
  struct statvfs room {};
  const bool fits =
      ::statvfs(memory, &room) == 0 && ::access(memory, W_OK) == 0 && available_host_memory() > bytes &&
      static_cast<double>(room.f_bavail) * static_cast<double>(room.f_frsize) > static_cast<double>(bytes);
  return fits && ::getenv("TMPDIR") == nullptr ? memory : std::filesystem::temp_directory_path();
}

// A directory of ours, gone with everything in it at the end.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(const std::filesystem::path& parent) {
    std::string path = (parent / "nibble-bench-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("cannot make a directory " + path);
    path_ = path;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Tokens of one request through four layers of K3, one of each kind. The weights are holes: they read as zero, and
// from memory like any others once the first tokens have touched them.
OpRow time_slice(const OpsOptions& o, int threads) {
  constexpr int64_t kLayers = 4, kSliceExperts = 64, kTokens = 14;
  constexpr size_t kFirst = 4;
  constexpr int64_t kRoom = int64_t{14} << 30;  // for all of its weights, and for the rest of us
  auto scratch = std::make_unique<TemporaryDirectory>(directory_in_memory(kRoom));
  checkpoint::SynthOptions synth;
  synth.directory = scratch->path() / "slice";
  synth.layers = kLayers;
  synth.experts = kSliceExperts;
  synth.sparse = true;
  checkpoint::synthesize(synth);
  ModelOptions model = o.model;
  model.model = synth.directory.string();
  EngineOptions options = engine_options(model);
  options.context = 64;
  options.max_sequences = 1;
  options.step_tokens = 16;
  options.checkpoint_bytes = 0;
  options.warn = {};  // said already
  const plan::Footprint f = plan::footprint(checkpoint::Checkpoint::open(synth.directory), 1);
  Engine engine(options);
  scratch.reset();  // the files live on in the engine's mappings, and nothing is left behind by a kill
  const double gb_per_s = measure(Limit::kReadBandwidth, threads);
  const std::vector<traffic::PlannedRequest> one = {{.arrival = 0.0, .prompt = {1, 2}, .output = kTokens}};
  const traffic::RunResult result = traffic::run(engine, one, 1);
  const std::vector<Clock::time_point>& times = result.timelines.at(0).tokens;
  std::vector<double> seconds;
  for (size_t i = kFirst; i < times.size(); ++i) {
    seconds.push_back(std::chrono::duration<double>(times[i] - times[i - 1]).count());
  }
  return {.name = "slice.decode",
          .value = 1.0 / median(seconds),
          .unit = "tokens/s",
          .limit = "read bandwidth over a token's bytes",
          .limit_value = plan::tokens_per_second(f, gb_per_s, 1, kTokens),
          .runs = static_cast<int64_t>(seconds.size())};
}

std::vector<std::string_view> chosen_names(const std::optional<std::string>& only) {
  std::vector<std::string_view> all(std::begin(kOpBenches), std::end(kOpBenches));
  if (!only) return all;
  std::vector<std::string_view> out;
  for (const std::string& name : list_entries(*only)) {
    const auto it = std::find(all.begin(), all.end(), name);
    if (it == all.end()) {
      throw Refusal({.what = "--only " + *only,
                     .seen = name,
                     .rule = fmt::format("names known: {}", fmt::join(all, ", ")),
                     .fix = "--only linear.bf16.m1"});
    }
    out.push_back(*it);
  }
  return out;
}

void print_row(const OpsOptions& o, const OpRow& r, int threads) {
  if (o.json) {
    const nlohmann::ordered_json row = {{"name", r.name},
                                        {"value", r.value},
                                        {"unit", r.unit},
                                        {"limit", r.limit},
                                        {"limit_value", r.limit_value},
                                        {"share", r.share()},
                                        {"threads", threads},
                                        {"runs", r.runs}};
    print(row.dump() + "\n");
  } else {
    print(fmt::format("{:<18} {:>10.2f} {:<9} {:>10.2f}  {:>6.1f} %  {:>5}  {}\n", r.name, r.value, r.unit,
                      r.limit_value, 100.0 * r.share(), r.runs, r.limit));
  }
  flush_output();
}

void run(const OpsOptions& o) {
  const std::vector<std::string_view> names = chosen_names(o.only);
  const SvgFile svg = open_svg(o.svg);
  ModelOptions on = o.model;
  if (on.device == "auto") on.device = "cpu";
  place_memory(on);
  const std::unique_ptr<Device> device = open_device(on);
  if (!device->shares_host_memory()) {
    throw Refusal({.what = "--device " + on.device,
                   .seen = std::string(device->name()),
                   .rule = "the limits measured are a CPU's, and so are the kernels timed",
                   .fix = "--device cpu; tools/gpu/bench.sh times a GPU's"});
  }
  const int threads = device->concurrency();
  const double gb_per_s = measure(Limit::kReadBandwidth, threads);
  const MultiplyPeak peak = measure_multiply_peak(threads);
  if (!o.json) {
    print(fmt::format("{}, {} threads: reads {:.1f} GB/s, multiplies and adds {:.1f} GFLOP/s ({})\n", device->name(),
                      threads, gb_per_s, peak.gflop_per_s, peak.instruction));
    print(fmt::format("{:<18} {:>10} {:<9} {:>10}  {:>8}  {:>5}  {}\n", "", "value", "", "limit", "share", "runs",
                      "limited by"));
    flush_output();
  }
  std::vector<traffic::Bar> bars;
  std::unique_ptr<BenchMemory> memory;  // not beside the slice, which needs room of its own
  for (const std::string_view name : names) {
    memory.reset();
    const bool slice = name == "slice.decode";
    if (!slice) memory = std::make_unique<BenchMemory>(*device);
    const OpRow row = slice ? time_slice(o, threads) : time_op(name, *device, *memory, threads);
    print_row(o, row, threads);
    bars.push_back({.name = std::string(name), .share = row.share()});
  }
  if (svg == nullptr) return;
  const std::string title = fmt::format("Share of the limit: {}, {} threads, {:.0f} GB/s, {:.0f} GFLOP/s",
                                        device->name(), threads, gb_per_s, peak.gflop_per_s);
  write_svg(svg, traffic::bars_to_svg(title, bars), o.svg);
}

}  // namespace

void add_bench_ops(CLI::App& bench) {
  CLI::App* command = bench.add_subcommand("ops", "Time the kernels at K3's shapes against what this machine can do");
  const auto o = std::make_shared<OpsOptions>();
  add_device_options(*command, o->model);
  command->add_option("--only", o->only, "Only these rows")->type_name("NAME,...");
  command->add_flag("--json", o->json, "Print one JSON object a row");
  command->add_option("--svg", o->svg, "Plot the shares into this file")->type_name("FILE");
  command->callback([o] { run(*o); });
}

}  // namespace nibble::cli
