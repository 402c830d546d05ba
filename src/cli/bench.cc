// `nibble bench`: what this machine does with a model. `serve` puts a made-up load on an engine inside this process.
#include "cli/bench.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>

#include "base/error.h"
#include "checkpoint/config.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/terminal.h"
#include "text/control_tokens.h"
#include "traffic/latency.h"
#include "traffic/plot.h"

namespace nibble::cli {
namespace {

using nlohmann::ordered_json;
using traffic::Percentiles;

constexpr int64_t kMaxConcurrency = 4096;

struct ServeOptions {
  ModelOptions model;
  std::string concurrency = "1,4,16,64", rate = "inf", prompt = "uniform:32:128", output = "uniform:32:128", svg;
  int64_t requests = 0;  // 0: four for each place, 16 at least
  uint64_t seed = 1;
  bool json = false;
};

struct Row {
  int64_t concurrency = 0, requests = 0;
  double rate = 0.0;  // 0: no arrivals, the next as one ends
  traffic::RunResult result;
  traffic::Latencies latency;
  Device::Peaks peaks;  // of this run
  double per_s(int64_t count) const { return static_cast<double>(count) / result.seconds; }
};

// Each concurrency with each rate.
std::vector<Row> plan_rows(const ServeOptions& o) {
  std::vector<Row> rows;
  for (const std::string& text : list_entries(o.concurrency)) {
    const int64_t concurrency = parse_count("--concurrency", text);
    if (concurrency < 1 || concurrency > kMaxConcurrency) {
      throw Refusal({.what = "--concurrency " + o.concurrency,
                     .seen = text,
                     .rule = fmt::format("from 1 to {} requests at once", kMaxConcurrency),
                     .fix = "--concurrency 1,4,16,64"});
    }
    for (const std::string& rate : list_entries(o.rate)) {
      rows.push_back({.concurrency = concurrency,
                      .requests = o.requests > 0 ? o.requests : std::max<int64_t>(16, 4 * concurrency),
                      .rate = rate == "inf" ? 0.0 : parse_real("--rate", rate, {0, 1e6, /*open=*/true}),
                      .result = {},
                      .latency = {}});
    }
  }
  return rows;
}

std::string rate_text(const Row& row) { return row.rate > 0.0 ? fmt::format("{:g}", row.rate) : "inf"; }

void print_table_head(const ServeOptions& o, std::string_view device, int threads) {
  print(fmt::format("{} on {}, {} threads; prompts {}, answers {} tokens, seed {}\n", o.model.model, device, threads,
                    o.prompt, o.output, o.seed));
  print(fmt::format("{:>6} {:>6} {:>8} {:>9} {:>9}  {:>26}  {:>23}  {:>15}  {:>9}\n", "", "", "", "", "", "TTFT ms",
                    "TPOT ms", "ITL ms", "memory"));
  print(fmt::format("{:>6} {:>6} {:>8} {:>9} {:>9}  {:>8} {:>8} {:>8}  {:>7} {:>7} {:>7}  {:>7} {:>7}  {:>9}\n",
                    "at once", "rate", "requests", "tokens/s", "req/s", "p50", "p90", "p99", "p50", "p90", "p99", "p50",
                    "p99", "GB/s"));
}

void print_table_row(const Row& r) {
  const traffic::Latencies& l = r.latency;
  print(fmt::format(
      "{:>7} {:>6} {:>8} {:>9.1f} {:>9.2f}  {:>8.1f} {:>8.1f} {:>8.1f}  {:>7.2f} {:>7.2f} {:>7.2f}  {:>7.2f} {:>7.2f}  "
      "{:>9.1f}\n",
      r.concurrency, rate_text(r), r.requests, r.per_s(r.result.output_tokens), r.per_s(r.requests), l.ttft.p50,
      l.ttft.p90, l.ttft.p99, l.tpot.p50, l.tpot.p90, l.tpot.p99, l.itl.p50, l.itl.p99, r.peaks.copy_gb_per_s));
}

ordered_json to_json(const Percentiles& p) {
  return {{"mean", p.mean}, {"p50", p.p50}, {"p90", p.p90}, {"p99", p.p99}};
}

ordered_json to_json(const ServeOptions& o, const Row& r, std::string_view device, int threads) {
  return {{"bench", "serve"},
          {"model", o.model.model},
          {"device", device},
          {"threads", threads},
          {"precision", o.model.precision},
          {"concurrency", r.concurrency},
          {"rate", r.rate > 0.0 ? ordered_json(r.rate) : ordered_json(nullptr)},
          {"requests", r.requests},
          {"prompt_len", o.prompt},
          {"output_len", o.output},
          {"seed", o.seed},
          {"prompt_tokens", r.result.prompt_tokens},
          {"output_tokens", r.result.output_tokens},
          {"seconds", r.result.seconds},
          {"requests_per_s", r.per_s(r.requests)},
          {"output_tokens_per_s", r.per_s(r.result.output_tokens)},
          {"total_tokens_per_s", r.per_s(r.result.output_tokens + r.result.prompt_tokens)},
          {"ttft_ms", to_json(r.latency.ttft)},
          {"tpot_ms", to_json(r.latency.tpot)},
          {"itl_ms", to_json(r.latency.itl)},
          {"e2e_ms", to_json(r.latency.e2e)},
          {"read_gb_per_s", r.peaks.copy_gb_per_s},
          {"matrix_tflops", r.peaks.matrix_tflops}};
}

// Over concurrency; over the rate, a line for each concurrency, where there are several rates.
std::string plot(const ServeOptions& o, const std::vector<Row>& rows, std::string_view device) {
  const bool by_rate = std::any_of(rows.begin(), rows.end(), [&](const Row& r) { return r.rate != rows[0].rate; });
  const std::string x = by_rate ? "requests a second" : "requests at once";
  traffic::Chart speed{
      .title = "Throughput", .x_label = x, .y_label = "tokens generated a second", .series = {}, .log_x = true};
  traffic::Chart times{.title = "Latency", .x_label = x, .y_label = "ms", .series = {}, .log_x = true, .log_y = true};
  const auto add = [&](traffic::Chart& chart, const std::string& name, const Row& r, double y) {
    auto it = std::find_if(chart.series.begin(), chart.series.end(), [&](const auto& s) { return s.name == name; });
    if (it == chart.series.end()) it = chart.series.insert(it, {.name = name, .points = {}});
    it->points.emplace_back(by_rate ? r.rate : static_cast<double>(r.concurrency), y);
  };
  for (const Row& r : rows) {
    if (by_rate && r.rate <= 0.0) continue;  // "inf" has no place on the axis
    const std::string at = by_rate ? fmt::format(" ({} at once)", r.concurrency) : "";
    add(speed, by_rate ? fmt::format("{} at once", r.concurrency) : "all requests", r, r.per_s(r.result.output_tokens));
    add(times, "TTFT p50" + at, r, r.latency.ttft.p50);
    if (!by_rate) add(times, "TTFT p99", r, r.latency.ttft.p99);
    add(times, "TPOT p50" + at, r, r.latency.tpot.p50);
    if (!by_rate) add(times, "TPOT p99", r, r.latency.tpot.p99);
  }
  for (traffic::Chart* chart : {&speed, &times}) {
    for (traffic::Series& s : chart->series) std::sort(s.points.begin(), s.points.end());
  }
  return traffic::to_svg(fmt::format("{} on {}; prompts {}, answers {} tokens; memory {:.0f} GB/s", o.model.model,
                                     device, o.prompt, o.output, rows.back().peaks.copy_gb_per_s),
                         {speed, times});
}

void serve(const ServeOptions& o) {
  std::vector<Row> rows = plan_rows(o);
  traffic::WorkloadOptions load{.prompt = traffic::parse_lengths("--prompt-len", o.prompt),
                                .output = traffic::parse_lengths("--output-len", o.output),
                                .seed = o.seed};
  EngineOptions options = engine_options(o.model);
  load.ids = checkpoint::load_config(options.model).vocab_size - text::kControlTokens;
  std::vector<std::vector<traffic::PlannedRequest>> workloads;
  int64_t longest = 0;
  for (const Row& row : rows) {
    load.requests = row.requests;
    load.rate = row.rate;
    workloads.push_back(make_workload(load));
    for (const auto& r : workloads.back())
      longest = std::max(longest, static_cast<int64_t>(r.prompt.size()) + r.output);
    options.max_sequences = std::max(options.max_sequences, row.concurrency);
  }
  if (options.context == 0) options.context = longest;
  options.checkpoint_bytes = 0;  // rows have the same prompts: one would begin from what another has computed
  const auto svg = open_svg(o.svg);
  ProgressBar bar;
  options.progress = [&bar](std::string_view phase, int done, int total) { bar.update(phase, done, total); };
  Engine engine(options);
  const auto device = open_device(o.model);
  const int threads = device->concurrency();
  InterruptGuard interrupt;
  const auto stop = [&interrupt] { return interrupt.take(); };
  // Once through all that is touched for the first time: a few requests that are not counted.
  traffic::run(engine, std::span(workloads[0]).first(std::min<size_t>(2, workloads[0].size())), 2);
  bar.erase();
  if (!o.json) print_table_head(o, engine.device(), threads);
  for (size_t i = 0; i < rows.size(); ++i) {
    Row& row = rows[i];
    row.peaks = device->measure_peaks();
    const std::string phase = fmt::format("{} at once", row.concurrency);
    row.result = traffic::run(
        engine, workloads[i], row.concurrency,
        [&](int64_t done) { bar.update(phase, static_cast<int>(done), static_cast<int>(row.requests)); }, stop);
    bar.erase();
    if (row.result.timelines.empty()) throw CLI::RuntimeError(kInterrupted);
    row.latency = latencies(row.result);
    o.json ? print(to_json(o, row, engine.device(), threads).dump() + "\n") : print_table_row(row);
    flush_output();
  }
  if (svg == nullptr) return;
  write_svg(svg, plot(o, rows, engine.device()), o.svg);
}

void add_serve_bench(CLI::App& bench) {
  CLI::App* command = bench.add_subcommand("serve", "Put a made-up load on the engine and measure its latencies");
  const auto o = std::make_shared<ServeOptions>();
  add_model_options(*command, o->model, "bf16");
  command->add_option("--concurrency", o->concurrency, "Requests at once; a row for each")
      ->type_name("N,N,...")
      ->capture_default_str();
  command->add_option("--rate", o->rate, "Arrivals a second, at random; a row for each; inf: the next as one ends")
      ->type_name("R,R,...")
      ->capture_default_str();
  command
      ->add_option_function<std::string>(
          "--requests",
          [o](const std::string& text) {
            o->requests = parse_count("--requests", text);
            if (o->requests >= 1 && o->requests <= 1'000'000) return;
            throw Refusal({.what = "--requests " + text,
                           .seen = text,
                           .rule = "from 1 to 1000000",
                           .fix = "leave it out, for four requests a place"});
          },
          "Requests of a row (default: four times --concurrency, 16 at least)")
      ->type_name("N");
  command
      ->add_option("--prompt-len,--input-len", o->prompt,
                   "Tokens of a prompt: N, uniform:LOW:HIGH, lognormal:MEDIAN:SIGMA")
      ->type_name("LENGTHS")
      ->capture_default_str();
  command->add_option("--output-len", o->output, "Tokens of an answer, in the same way")
      ->type_name("LENGTHS")
      ->capture_default_str();
  command
      ->add_option_function<std::string>(
          "-s,--seed", [o](const std::string& text) { o->seed = parse_seed("--seed", text); },
          "Of prompts, lengths and arrivals (default 1)")
      ->type_name("N");
  command->add_flag("--json", o->json, "Print one JSON object a row");
  command->add_option("--svg", o->svg, "Plot throughput and latencies into this file")->type_name("FILE");
  command->callback([o] { serve(*o); });
}

}  // namespace

SvgFile open_svg(const std::string& path) {
  SvgFile file(path.empty() ? nullptr : std::fopen(path.c_str(), "wb"));
  if (file != nullptr || path.empty()) return file;
  throw Refusal({.what = "--svg " + path,
                 .seen = "the file cannot be written",
                 .rule = "the plot goes to a file of its own",
                 .fix = "check the folder"});
}

void write_svg(const SvgFile& file, const std::string& text, const std::string& path) {
  if (std::fwrite(text.data(), 1, text.size(), file.get()) != text.size() || std::fflush(file.get()) != 0) {
    throw std::runtime_error("cannot write " + path);
  }
}

std::vector<std::string> list_entries(const std::string& list) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    out.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

void add_bench(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "What this machine does with a model");
  add_bench_model(*bench);
  add_serve_bench(*bench);
  add_bench_ops(*bench);
}

}  // namespace nibble::cli
