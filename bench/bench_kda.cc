// kda_rows at K3's head shape. Single tokens walk the layers of a model far larger than the caches, as decoding does,
// so that S0 comes from memory; their limit is the read bandwidth, measured first. A prompt stays in one layer; its
// limit is the arithmetic, given as GFLOP/s of what the segment form must do (3 K V multiplications and additions a
// head).
#include <benchmark/benchmark.h>

#include <algorithm>

#include "bench/limits.h"
#include "cpu/cpu_device.h"
#include "cpu/isa.h"
#include "ops/certify/steps.h"
#include "ops/certify/workspace.h"
#include "ops/kda_rows.h"

namespace nibble {
namespace {

constexpr int64_t kHeads = 96, kWidth = 128, kCols = kHeads * kWidth;

// `rows` rows of one sequence, on one of `layers` layers' states.
struct Problem {
  cpu::CpuDevice device;
  ops::certify::Workspace memory;
  ops::KdaRows args;
  View1<int32_t> position;
  int64_t layers;

  Problem(int64_t rows, int64_t layer_count, int threads)
      : device(*cpu::best_isa().kernels, threads), memory(device), layers(layer_count) {
    using ops::certify::Random;
    Random random(1);
    std::vector<float> decay(static_cast<size_t>(rows * kCols)), beta(static_cast<size_t>(rows * kHeads), 0.5f);
    for (float& g : decay) g = static_cast<float>(-5 * random.uniform());
    const int64_t scratch = static_cast<int64_t>(ops::kda_rows_scratch_bytes(device, kWidth, kWidth));
    position = memory.vector<int32_t>({16});
    args = {.q = memory.rows(rows, kCols, DType::kBf16, random.normals(rows * kCols)),
            .k = memory.rows(rows, kCols, DType::kBf16, random.normals(rows * kCols)),
            .v = memory.rows(rows, kCols, DType::kBf16, random.normals(rows * kCols)),
            .decay = memory.matrix(rows, kCols, decay),
            .beta = memory.matrix(rows, kHeads, beta),
            .state = memory.vector(std::vector<float>(static_cast<size_t>(layers * kCols * kWidth), 0.5f)),
            .records = memory.vector(std::vector<float>(static_cast<size_t>(layers * kCols * 16 * 3), 0.01f)),
            .heads = kHeads,
            .key_dim = kWidth,
            .value_dim = kWidth,
            .sequences = ops::certify::sequences(memory, {{static_cast<int32_t>(rows)}, {16}, {0}}),
            .out = memory.poisoned_rows(rows, kCols, DType::kBf16),
            .scratch = memory.poisoned_vector<std::byte>(scratch)};
    args.sequences.position = position;
  }

  // As if the layer were one of a model's.
  void run(int64_t layer) {
    ops::KdaRows a = args;
    a.state = {args.state.data + layer * kCols * kWidth, kCols * kWidth};
    a.records = {args.records.data + layer * kCols * 48, kCols * 48};
    ops::kda_rows(device, a);
  }
};

void report(benchmark::State& bench, int64_t rows) {
  bench.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(rows * bench.iterations()), benchmark::Counter::kIsRate);
  bench.SetLabel(cpu::best_isa().name.data());
}

// A token in each of `layers` layers, at sixteen positions: one step in sixteen folds.
void one_row(benchmark::State& bench) {
  const int threads = static_cast<int>(bench.range(0));
  constexpr int64_t kLayers = 40;  // 252 MB of S0
  Problem problem(1, kLayers, threads);
  int64_t step = 0;
  for (auto _ : bench) {
    problem.position.data[0] = static_cast<int32_t>(16 + step++ % 16);
    for (int64_t layer = 0; layer < kLayers; ++layer) problem.run(layer);
  }
  report(bench, kLayers);
  const double bytes = static_cast<double>(kLayers * kCols * kWidth * 4);
  bench.counters["of read bandwidth"] = benchmark::Counter(
      bytes * static_cast<double>(bench.iterations()) / read_gb_per_s(threads) / 1e9, benchmark::Counter::kIsRate);
  bench.counters["read GB/s"] = read_gb_per_s(threads);
}
BENCHMARK(one_row)->ArgName("threads")->Arg(1)->Arg(2)->Iterations(64)->UseRealTime();

void many_rows(benchmark::State& bench) {
  const int64_t rows = bench.range(0);
  Problem problem(rows, 1, static_cast<int>(bench.range(1)));
  for (auto _ : bench) problem.run(0);
  report(bench, rows);
  bench.counters["GFLOP/s"] = benchmark::Counter(static_cast<double>(rows * bench.iterations() * kCols) * kWidth * 6e-9,
                                                 benchmark::Counter::kIsRate);
}
BENCHMARK(many_rows)->ArgNames({"rows", "threads"})->ArgsProduct({{16, 2048}, {1, 2}})->UseRealTime();

}  // namespace
}  // namespace nibble

BENCHMARK_MAIN();
