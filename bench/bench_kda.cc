// kda_rows at K3's head shape: tokens a second of one layer, for single tokens and for a prompt chunk, beside the
// bandwidth of reading as much memory as one token has state.
#include <benchmark/benchmark.h>

#include <cstring>
#include <numeric>

#include "cpu/cpu_device.h"
#include "cpu/isa.h"
#include "ops/certify/ragged.h"
#include "ops/certify/workspace.h"
#include "ops/kda_rows.h"

namespace nibble {
namespace {

constexpr int64_t kHeads = 96, kWidth = 128;

// Arguments: rows, threads.
void rows_of_one_sequence(benchmark::State& bench) {
  using ops::certify::Random;
  cpu::CpuDevice device(*cpu::best_isa().kernels, static_cast<int>(bench.range(1)));
  ops::certify::Workspace memory(device);
  Random random(1);
  const int64_t rows = bench.range(0), cols = kHeads * kWidth;
  std::vector<float> decay(static_cast<size_t>(rows * cols)), beta(static_cast<size_t>(rows * kHeads), 0.5f);
  for (float& g : decay) g = static_cast<float>(-5 * random.uniform());
  const int64_t scratch = static_cast<int64_t>(ops::kda_rows_scratch_bytes(device, kWidth, kWidth));
  // Position 16: S0 is read. One row there folds nothing, so the mean over a segment is a little higher.
  const ops::KdaRows args = {
      .q = memory.rows(rows, cols, DType::kBf16, random.normals(rows * cols)),
      .k = memory.rows(rows, cols, DType::kBf16, random.normals(rows * cols)),
      .v = memory.rows(rows, cols, DType::kBf16, random.normals(rows * cols)),
      .decay = memory.matrix(rows, cols, decay),
      .beta = memory.matrix(rows, kHeads, beta),
      .state = memory.vector(random.normals(cols * kWidth)),
      .records = memory.vector(std::vector<float>(static_cast<size_t>(cols * ops::kSegmentTokens * 3))),
      .heads = kHeads,
      .key_dim = kWidth,
      .value_dim = kWidth,
      .sequences = ops::certify::sequences(memory, {{static_cast<int32_t>(rows)}, {16}, {0}}),
      .out = memory.poisoned_rows(rows, cols, DType::kBf16),
      .scratch = memory.poisoned_vector<std::byte>(scratch)};
  for (auto _ : bench) ops::kda_rows(device, args);
  bench.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(rows * bench.iterations()), benchmark::Counter::kIsRate);
  bench.SetLabel(cpu::best_isa().name.data());
}
BENCHMARK(rows_of_one_sequence)->ArgNames({"rows", "threads"})->ArgsProduct({{1, 16, 256}, {1, 2}})->UseRealTime();

// The limit for single tokens: S0 of all heads, once.
void read_states(benchmark::State& bench) {
  ThreadPool pool(static_cast<int>(bench.range(0)));
  std::vector<float> state(static_cast<size_t>(kHeads * kWidth * kWidth), 1.0f);
  for (auto _ : bench) {
    pool.parallel_for(kHeads, [&](int64_t begin, int64_t end, int) {
      float lanes[16] = {};
      for (int64_t i = begin * kWidth * kWidth; i < end * kWidth * kWidth; i += 16) {
        for (int64_t j = 0; j < 16; ++j) lanes[j] += state[static_cast<size_t>(i + j)];
      }
      benchmark::DoNotOptimize(lanes);
    });
  }
  bench.counters["tokens/s"] = benchmark::Counter(static_cast<double>(bench.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(read_states)->ArgNames({"threads"})->Arg(1)->Arg(2)->UseRealTime();

}  // namespace
}  // namespace nibble

BENCHMARK_MAIN();
