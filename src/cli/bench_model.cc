// `nibble bench -m DIR`: how fast a model reads prompts and generates, at several lengths and depths, in the words of
// llama-bench: pp512 is a prompt of 512 tokens, tg128 are 128 generated ones, "@ d4096" comes after 4,096 others.
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "base/multiply_peak.h"
#include "base/read_bandwidth.h"
#include "cli/bench.h"
#include "cli/common.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/terminal.h"
#include "plan/bounds.h"
#include "text/control_tokens.h"
#include "traffic/run.h"

namespace nibble::cli {
namespace {

struct SpeedOptions {
  ModelOptions model;
  std::string prompts = "512", tokens = "128", depths = "0", repetitions = "3", format = "markdown";
  bool json = false;
};

struct SpeedTest {
  bool generates = false;
  int64_t length = 0, depth = 0;
  std::string name() const {
    const std::string test = fmt::format("{}{}", generates ? "tg" : "pp", length);
    return depth == 0 ? test : fmt::format("{} @ d{}", test, depth);
  }
};

struct SpeedRow {
  std::string name;
  double value = 0.0, spread = 0.0;  // tokens a second: the median, and half of what lies between the extremes
  std::string_view limit;
  double limit_value = 0.0;  // tokens a second
  int64_t runs = 0;
};

std::vector<int64_t> lengths(const char* flag, const std::string& list, int64_t least) {
  std::vector<int64_t> out;
  for (const std::string& text : list_entries(list)) {
    out.push_back(parse_count(flag, text));
    if (out.back() < least) {
      throw Refusal({.what = fmt::format("{} {}", flag, list),
                     .seen = text,
                     .rule = fmt::format("numbers of tokens, {} at least, between commas", least),
                     .fix = fmt::format("{} 512", flag)});
    }
  }
  return out;
}

// Each length at each depth; 0 leaves a kind of test out.
std::vector<SpeedTest> tests_of(const SpeedOptions& o) {
  std::vector<SpeedTest> out;
  for (const int64_t depth : lengths("-d", o.depths, 0)) {
    for (const int64_t p : lengths("-p", o.prompts, 0)) {
      if (p > 0) out.push_back({.generates = false, .length = p, .depth = depth});
    }
    for (const int64_t n : lengths("-n", o.tokens, 0)) {
      if (n > 0) out.push_back({.generates = true, .length = n, .depth = depth});
    }
  }
  return out;
}

// Weights that a token is multiplied with, from the bytes that it reads: two operations for each.
double operations_per_token(const plan::Footprint& f) {
  double weights = 0.0;
  for (size_t i = 0; i < f.parts.size(); ++i) {
    const auto part = static_cast<checkpoint::ModelPart>(i);
    const auto bytes = static_cast<double>(f.parts[i].read);
    if (part == checkpoint::ModelPart::kEmbedding || part == checkpoint::ModelPart::kHead) continue;
    const bool packed = part == checkpoint::ModelPart::kRoutedExperts;
    weights += bytes * (!packed ? 0.5 : f.expert_format == "nvfp4" ? 16.0 / 9 : 32.0 / 17);
  }
  return 2.0 * weights;
}

// One request of `prompt` tokens and `output` more; the times at which tokens came, and when it was due.
traffic::Timeline time_request(Engine& engine, int64_t prompt, int64_t output, int64_t ids) {
  traffic::PlannedRequest request;
  for (int64_t i = 0; i < prompt; ++i) request.prompt.push_back(static_cast<int32_t>((i * 7919 + 1) % ids));
  request.output = output;
  return traffic::run(engine, std::span(&request, 1), 1).timelines.at(0);
}

double seconds(traffic::Clock::time_point from, traffic::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

double time_test(Engine& engine, const SpeedTest& test, int64_t ids) {
  if (test.generates) {
    const traffic::Timeline t = time_request(engine, std::max<int64_t>(1, test.depth), test.length + 1, ids);
    return seconds(t.tokens.front(), t.tokens.back());
  }
  const traffic::Timeline all = time_request(engine, test.depth + test.length, 1, ids);
  double taken = seconds(all.due, all.tokens.front());
  if (test.depth > 0) {  // less what comes before
    const traffic::Timeline before = time_request(engine, test.depth, 1, ids);
    taken -= seconds(before.due, before.tokens.front());
  }
  return taken;
}

SpeedRow run_test(Engine& engine, const SpeedTest& test, int64_t repetitions, int64_t ids) {
  std::vector<double> speeds;
  for (int64_t i = 0; i < repetitions; ++i) {
    speeds.push_back(static_cast<double>(test.length) / time_test(engine, test, ids));
  }
  std::sort(speeds.begin(), speeds.end());
  return {.name = test.name(),
          .value = speeds[speeds.size() / 2],
          .spread = (speeds.back() - speeds.front()) / 2,
          .limit = {},
          .runs = repetitions};
}

struct Limits {
  double gb_per_s = 0.0, gflop_per_s = 0.0;
};

// Measured in this run: a CPU's reads and multiply-adds, a GPU's copies and matrix products.
Limits limits_of(Device& device) {
  if (device.shares_host_memory()) {
    return {measure_read_bandwidth(device.concurrency()).median_gb_per_s,
            measure_multiply_peak(device.concurrency()).gflop_per_s};
  }
  const Device::Peaks peaks = device.measure_peaks();
  return {peaks.copy_gb_per_s, peaks.matrix_tflops * 1e3};
}

void print_head(const SpeedOptions& o, std::string_view device, int threads, const Limits& limits) {
  if (o.json) return;
  if (o.format == "csv") {
    print("model,device,threads,test,tokens_per_s,spread,limit,limit_value,share,runs\n");
    return;
  }
  print(fmt::format("{} on {}, {} threads: reads {:.1f} GB/s, multiplies and adds {:.1f} GFLOP/s\n\n", o.model.model,
                    device, threads, limits.gb_per_s, limits.gflop_per_s));
  print("| test | tokens/s | limit | share | limited by |\n| --- | ---: | ---: | ---: | --- |\n");
}

void print_row(const SpeedOptions& o, const SpeedRow& r, std::string_view device, int threads) {
  const double share = r.value / r.limit_value;
  if (o.json) {
    const nlohmann::ordered_json row = {{"bench", "model"},   {"model", o.model.model}, {"device", device},
                                        {"name", r.name},     {"value", r.value},       {"unit", "tokens/s"},
                                        {"spread", r.spread}, {"limit", r.limit},       {"limit_value", r.limit_value},
                                        {"share", share},     {"threads", threads},     {"runs", r.runs}};
    print(row.dump() + "\n");
  } else if (o.format == "csv") {
    print(fmt::format("\"{}\",{},{},{},{:.3f},{:.3f},{},{:.3f},{:.5f},{}\n", o.model.model, device, threads, r.name,
                      r.value, r.spread, r.limit, r.limit_value, share, r.runs));
  } else {
    print(fmt::format("| {} | {:.2f} +- {:.2f} | {:.2f} | {:.1f} % | {} |\n", r.name, r.value, r.spread, r.limit_value,
                      100.0 * share, r.limit));
  }
  flush_output();
}

void run(const SpeedOptions& o) {
  const std::vector<SpeedTest> tests = tests_of(o);
  const int64_t repetitions = lengths("-r", o.repetitions, 1).front();
  EngineOptions options = engine_options(o.model);
  const checkpoint::Checkpoint checkpoint = checkpoint::Checkpoint::open(options.model);
  const plan::Footprint f = plan::footprint(checkpoint, 1);
  int64_t longest = 1;
  for (const SpeedTest& t : tests) longest = std::max(longest, t.depth + t.length + 2);
  options.context = longest;
  options.max_sequences = 1;
  options.checkpoint_bytes = 0;  // repetitions have the same prompts
  ProgressBar bar;
  options.progress = [&bar](std::string_view phase, int done, int total) { bar.update(phase, done, total); };
  Engine engine(options);
  bar.erase();
  const std::unique_ptr<Device> device = open_device(o.model);
  const int threads = device->concurrency();
  const Limits limits = limits_of(*device);
  const int64_t ids = f.config.vocab_size - text::kControlTokens;
  time_request(engine, 8, 8, ids);  // touches what is touched for the first time
  print_head(o, engine.device(), threads, limits);
  for (const SpeedTest& test : tests) {
    SpeedRow row = run_test(engine, test, repetitions, ids);
    row.limit = test.generates ? "read bandwidth" : "multiply-add";
    row.limit_value = test.generates ? plan::tokens_per_second(f, limits.gb_per_s, 1, test.depth + test.length / 2)
                                     : limits.gflop_per_s * 1e9 / operations_per_token(f);
    print_row(o, row, engine.device(), threads);
  }
}

}  // namespace

void add_bench_model(CLI::App& bench) {
  const auto o = std::make_shared<SpeedOptions>();
  bench.add_option("-m,--model", o->model.model, "Checkpoint directory: time its prompts and its generation");
  add_device_options(bench, o->model);
  o->model.precision = "bf16";
  bench.add_option("-p,--n-prompt", o->prompts, "Tokens of prompts; 0: none")
      ->type_name("N,...")
      ->capture_default_str();
  bench.add_option("-n,--n-gen", o->tokens, "Tokens to generate; 0: none")->type_name("N,...")->capture_default_str();
  bench.add_option("-d,--n-depth", o->depths, "Tokens before either")->type_name("N,...")->capture_default_str();
  bench.add_option("-r,--repetitions", o->repetitions, "Runs of a test")->type_name("N")->capture_default_str();
  bench.add_option("--output", o->format, "markdown or csv")
      ->check(CLI::IsMember({"markdown", "csv"}))
      ->capture_default_str();
  bench.add_flag("--json", o->json, "Print one JSON object a row");
  bench.callback([o, &bench] {
    if (!bench.get_subcommands().empty()) return;
    if (o->model.model.empty()) throw CLI::RequiredError("A subcommand, or a model (-m)");
    run(*o);
  });
}

}  // namespace nibble::cli
