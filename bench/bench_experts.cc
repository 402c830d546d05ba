// `moe_experts` at K3's shape: each row through 16 of 896 experts, chosen evenly. Experts take turns on 96 of each
// matrix, 1.6 GB and more, so that rows find as many experts as in K3 and every weight comes from memory.
//
// usage: bench_experts [--benchmark_filter=nvfp4]
#include "bench/report.h"
#include "bench/weight_pool.h"
#include "cpu/cpu_device.h"
#include "ops/certify/workspace.h"
#include "ops/moe_experts.h"

namespace nibble {
namespace {

using ops::certify::Random;

constexpr int kThreads = 2;
constexpr int64_t kLatent = 3584, kWidth = 3072, kExperts = 896, kTopK = 16, kPoolBytes = int64_t{560} << 20;

// kTopK of kExperts for each row, ascending: each expert is taken with the chance that is left.
std::vector<int32_t> choose(int64_t rows, Random& random) {
  std::vector<int32_t> ids;
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t e = 0, left = kTopK; e < kExperts; ++e) {
      if (random.below(kExperts - e) < left) ids.push_back(static_cast<int32_t>(e)), --left;
    }
  }
  return ids;
}

void experts(benchmark::State& bench, fp4::WeightFormat format) {
  cpu::CpuDevice device(*cpu::best_isa().kernels, kThreads);
  ops::certify::Workspace memory(device);
  const WeightPool up_pool(format, kWidth, kLatent, 2 * kPoolBytes), down_pool(format, kLatent, kWidth, kPoolBytes);
  const int64_t rows = bench.range(0);
  std::vector<ops::WeightMatrix> w1, w3, w2;
  for (int64_t e = 0; e < kExperts; ++e) {
    w1.push_back(up_pool.at(2 * e));
    w3.push_back(up_pool.at(2 * e + 1));
    w2.push_back(down_pool.at(e));
  }
  const auto bank = [&](const std::vector<ops::WeightMatrix>& all) {
    return ops::ExpertBank{memory.vector(all), format, all.front().rows, all.front().cols};
  };
  Random random(1);
  const auto scratch =
      static_cast<int64_t>(ops::moe_experts_scratch_bytes(device, rows, kTopK, kExperts, kLatent, kWidth));
  ops::MoeExperts args = {
      .x = memory.rows(rows, kLatent, DType::kBf16, random.normals(rows * kLatent)),
      .ids = {},
      .weights = memory.matrix(rows, kTopK, std::vector<float>(static_cast<size_t>(rows * kTopK), 0.25f)),
      .w1 = bank(w1),
      .w3 = bank(w3),
      .w2 = bank(w2),
      .beta = 4.0f,
      .linear_beta = 25.0f,
      .scratch = memory.poisoned_vector<std::byte>(scratch),
      .out = memory.poisoned_rows(rows, kLatent, DType::kBf16)};
  std::vector<View2<const int32_t>> steps;
  for (int i = 0; i < 16; ++i) steps.push_back(memory.matrix(rows, kTopK, choose(rows, random)));
  size_t next = 0;
  Work work;
  for (auto _ : bench) {
    args.ids = steps[next++ % steps.size()];
    ops::moe_experts(device, args);
  }
  for (const View2<const int32_t>& ids : steps) {
    args.ids = ids;
    work += work_of(args);
  }
  const auto count = static_cast<double>(steps.size());
  report(bench, {work.operations / count, work.bytes / count}, kThreads);
}

#define NIBBLE_EXPERTS(name, format)       \
  BENCHMARK_CAPTURE(experts, name, format) \
      ->ArgName("rows")                    \
      ->Arg(1)                             \
      ->Arg(4)                             \
      ->Arg(16)                            \
      ->Arg(128)                           \
      ->UseRealTime()                      \
      ->Unit(benchmark::kMillisecond)
NIBBLE_EXPERTS(mxfp4, fp4::WeightFormat::kMxfp4);
NIBBLE_EXPERTS(nvfp4, fp4::WeightFormat::kNvfp4);

}  // namespace
}  // namespace nibble

BENCHMARK_MAIN();
