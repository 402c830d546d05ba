// Speed of `linear` on this machine's best instruction set, beside the read bandwidth measured in the same run.
//
// usage: bench_linear [--benchmark_filter=mxfp4]; N = K = 4096, two threads. Enough different matrices to fill 256 MiB
// take turns, so that weights come from memory, as they do in a model.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "cpu/cpu_device.h"
#include "cpu/isa.h"
#include "fp4/format.h"
#include "ops/linear.h"

namespace nibble {
namespace {

constexpr int64_t kSize = 4096, kThreads = 2, kPoolBytes = int64_t{256} << 20;

struct Pool {
  std::vector<std::byte> codes, scales;
  std::vector<ops::WeightMatrix> matrices;
  int64_t bytes = 0;  // of one matrix
};

// Arbitrary finite weights: what they are worth does not change the time.
Pool make_pool(fp4::WeightFormat format) {
  const bool packed = format == fp4::WeightFormat::kMxfp4;
  const int64_t codes = packed ? kSize * kSize / 2 : kSize * kSize * 2;
  const int64_t scales = packed ? kSize * kSize / fp4::Mxfp4::kGroup : 0;
  const int64_t count = std::max<int64_t>(2, kPoolBytes / codes);
  Pool pool{std::vector<std::byte>(static_cast<size_t>(codes * count), std::byte{0x3C}),
            std::vector<std::byte>(static_cast<size_t>(scales * count), std::byte{120}),
            {},
            codes + scales};
  for (int64_t i = 0; i < count; ++i) {
    pool.matrices.push_back({format, kSize, kSize, pool.codes.data() + i * codes, pool.scales.data() + i * scales});
  }
  return pool;
}

void multiply(benchmark::State& state, fp4::WeightFormat format) {
  cpu::CpuDevice device(*cpu::best_isa().kernels, kThreads);
  const Pool pool = make_pool(format);
  const int64_t rows = state.range(0);
  const std::vector<Bf16> x(static_cast<size_t>(rows * kSize), to_bf16(0.5f));
  std::vector<Bf16> y(x.size());
  ops::Linear args = {.x = {x.data(), DType::kBf16, rows, kSize, kSize}, .parts = {}, .part_count = 1};
  args.parts[0].out = {y.data(), DType::kBf16, rows, kSize, kSize};
  size_t next = 0;
  for (auto _ : state) {
    args.parts[0].weight = pool.matrices[next++ % pool.matrices.size()];
    ops::linear(device, args);
  }
  const auto runs = static_cast<double>(state.iterations());
  const auto flops = static_cast<double>(2 * rows * kSize * kSize) * runs;
  state.counters["GFLOP/s"] = benchmark::Counter(flops / 1e9, benchmark::Counter::kIsRate);
  state.counters["GB/s"] =
      benchmark::Counter(static_cast<double>(pool.bytes) * runs / 1e9, benchmark::Counter::kIsRate);
}

// The limit: the same threads only read.
void read_memory(benchmark::State& state) {
  ThreadPool threads(kThreads);
  const std::vector<uint64_t> words(static_cast<size_t>(kPoolBytes / 8), 1);
  for (auto _ : state) {
    threads.parallel_for(static_cast<int64_t>(words.size()), [&](int64_t begin, int64_t end, int) {
      const int64_t quarter = (end - begin) / 4;  // four streams, as the kernel has
      uint64_t total[4] = {};
      for (int64_t i = begin; i < begin + quarter; ++i) {
        for (int s = 0; s < 4; ++s) total[s] += words[static_cast<size_t>(i + s * quarter)];
      }
      benchmark::DoNotOptimize(total);
    });
  }
  const auto bytes = static_cast<double>(kPoolBytes) * static_cast<double>(state.iterations());
  state.counters["GB/s"] = benchmark::Counter(bytes / 1e9, benchmark::Counter::kIsRate);
}

BENCHMARK(read_memory)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(multiply, bf16, fp4::WeightFormat::kBf16)
    ->Arg(1)
    ->Arg(8)
    ->Arg(64)
    ->Arg(512)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(multiply, mxfp4, fp4::WeightFormat::kMxfp4)
    ->Arg(1)
    ->Arg(8)
    ->Arg(64)
    ->Arg(512)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace nibble

BENCHMARK_MAIN();
