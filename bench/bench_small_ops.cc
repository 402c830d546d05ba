// What stands between K3's products, at its shapes: routing, the attention residual, the convolution, sampling. Their
// inputs are what other ops have just written, so at a few rows they come from the caches, and a share above one of the
// read bandwidth says so.
#include "bench/report.h"
#include "cpu/cpu_device.h"
#include "ops/certify/steps.h"
#include "ops/certify/workspace.h"

namespace nibble {
namespace {

using ops::certify::Random;

constexpr int kThreads = 2;
constexpr int64_t kHidden = 7168, kExperts = 896, kTopK = 16, kSources = 9, kChannels = 3 * 12288, kTaps = 4;
constexpr int64_t kVocabulary = 163840;

struct Rig {
  cpu::CpuDevice device{*cpu::best_isa().kernels, kThreads};
  ops::certify::Workspace memory{device};
  Random random{1};
};

void route(benchmark::State& bench) {
  Rig rig;
  const int64_t rows = bench.range(0);
  const ops::MoeRoute args = {.logits = rig.memory.matrix(rows, kExperts, rig.random.normals(rows * kExperts)),
                              .bias = rig.memory.vector(rig.random.normals(kExperts, 0.1)),
                              .ids = rig.memory.poisoned_matrix<int32_t>(rows, kTopK),
                              .weights = rig.memory.poisoned_matrix<float>(rows, kTopK),
                              .scale = 2.5f};
  for (auto _ : bench) ops::moe_route(rig.device, args);
  report(bench, work_of(args), kThreads);
}
BENCHMARK(route)->ArgName("rows")->Arg(1)->Arg(16)->Arg(128)->UseRealTime()->Unit(benchmark::kMicrosecond);

// The last layers', which have most snapshots.
void mix(benchmark::State& bench) {
  Rig rig;
  const int64_t rows = bench.range(0);
  const ops::AttnResMix args = {
      .sources = rig.memory.rows(kSources * rows, kHidden, DType::kBf16, rig.random.normals(kSources * rows * kHidden)),
      .norm = rig.memory.vector(rig.random.normals(kHidden)),
      .proj = rig.memory.vector(rig.random.normals(kHidden, 0.02)),
      .eps = 1e-5f,
      .out = rig.memory.poisoned_rows(rows, kHidden, DType::kBf16)};
  for (auto _ : bench) ops::attn_res_mix(rig.device, args);
  report(bench, work_of(args), kThreads);
}
BENCHMARK(mix)->ArgName("rows")->Arg(1)->Arg(16)->Arg(512)->UseRealTime()->Unit(benchmark::kMicrosecond);

// One sequence; single rows meet another slot's window at each call.
void convolution(benchmark::State& bench) {
  Rig rig;
  const int64_t rows = bench.range(0), slots = rows == 1 ? 69 : 1;
  ops::CausalConvSilu args = {.x = rig.memory.rows(rows, kChannels, DType::kBf16, rig.random.normals(rows * kChannels)),
                              .weight = rig.memory.matrix(kChannels, kTaps, rig.random.normals(kChannels * kTaps)),
                              .window = rig.memory.rows(slots * (kTaps - 1), kChannels, DType::kBf16,
                                                        rig.random.normals(slots * (kTaps - 1) * kChannels)),
                              .sequences = {},
                              .out = rig.memory.poisoned_rows(rows, kChannels, DType::kBf16)};
  std::vector<ops::Sequences> steps;
  for (int32_t slot = 0; slot < slots; ++slot) {
    steps.push_back(ops::certify::sequences(rig.memory, {{static_cast<int32_t>(rows)}, {16}, {slot}}));
  }
  size_t next = 0;
  for (auto _ : bench) {
    args.sequences = steps[next++ % steps.size()];
    ops::causal_conv_silu(rig.device, args);
  }
  report(bench, work_of(args), kThreads);
}
BENCHMARK(convolution)->ArgName("rows")->Arg(1)->Arg(16)->Arg(512)->UseRealTime()->Unit(benchmark::kMicrosecond);

void sample(benchmark::State& bench, const ops::SampleRow& how) {
  Rig rig;
  const int64_t rows = bench.range(0);
  const auto scratch = static_cast<int64_t>(ops::sample_scratch_bytes(rig.device, kVocabulary));
  const ops::Sample args = {.logits = rig.memory.matrix(rows, kVocabulary, rig.random.normals(rows * kVocabulary, 3.0)),
                            .rows = rig.memory.vector(std::vector<ops::SampleRow>(static_cast<size_t>(rows), how)),
                            .seen_ids = {},
                            .seen_counts = {},
                            .bias_ids = {},
                            .bias_values = {},
                            .scratch = rig.memory.poisoned_vector<std::byte>(scratch),
                            .ids = rig.memory.poisoned_vector<int32_t>(rows),
                            .status = rig.memory.poisoned_vector<int32_t>(rows)};
  for (auto _ : bench) ops::sample(rig.device, args);
  report(bench, work_of(args), kThreads);
}
BENCHMARK_CAPTURE(sample, greedy, ops::SampleRow{})
    ->ArgName("rows")
    ->Arg(1)
    ->Arg(16)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sample, top_p, ops::SampleRow{.temperature = 1.0f, .top_p = 0.95f})
    ->ArgName("rows")
    ->Arg(1)
    ->Arg(16)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace nibble

BENCHMARK_MAIN();
