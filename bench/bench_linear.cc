// `linear` at the shapes of K3's projections, in each format that they can have: from memory, as in a model, for enough
// different matrices take turns.
//
// usage: bench_linear [--benchmark_filter=mxfp8]
#include <string>

#include "bench/report.h"
#include "bench/weight_pool.h"
#include "cpu/cpu_device.h"
#include "ops/linear.h"

namespace nibble {
namespace {

constexpr int kThreads = 2;
constexpr int64_t kHidden = 7168, kProjection = 12288;

void multiply(benchmark::State& bench, fp4::WeightFormat format) {
  cpu::CpuDevice device(*cpu::best_isa().kernels, kThreads);
  const WeightPool pool(format, kProjection, kHidden);
  const int64_t rows = bench.range(0);
  const std::vector<Bf16> x(static_cast<size_t>(rows * kHidden), to_bf16(0.5f));
  std::vector<Bf16> y(static_cast<size_t>(rows * kProjection));
  ops::Linear args = {.x = {x.data(), DType::kBf16, rows, kHidden, kHidden}, .parts = {}, .part_count = 1};
  args.parts[0] = {pool.at(0), {y.data(), DType::kBf16, rows, kProjection, kProjection}};
  int64_t next = 0;
  for (auto _ : bench) {
    args.parts[0].weight = pool.at(next++);
    ops::linear(device, args);
  }
  report(bench, work_of(args), kThreads);
}

void add(fp4::WeightFormat format) {
  benchmark::RegisterBenchmark((std::string("linear/") + name_of(format)).c_str(),
                               [format](benchmark::State& bench) { multiply(bench, format); })
      ->ArgName("rows")
      ->Arg(1)
      ->Arg(4)
      ->Arg(16)
      ->Arg(128)
      ->Arg(512)
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace nibble

int main(int argc, char** argv) {
  using nibble::fp4::WeightFormat;
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kFp8Block, WeightFormat::kMxfp8,
                                    WeightFormat::kMxfp4, WeightFormat::kNvfp4}) {
    nibble::add(format);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
