// mla_attention at K3's shape (96 heads, latent 512 + 64): one row at a depth, and a chunk of rows. Layers take turns,
// so that kv_b and the pages come from memory. Two limits: the bytes of kv_b and of the pages, each read once, over the
// read bandwidth measured first; and the arithmetic, given as GFLOP/s.
#include <benchmark/benchmark.h>

#include <numeric>

#include "bench/limits.h"
#include "cpu/cpu_device.h"
#include "cpu/isa.h"
#include "ops/certify/steps.h"
#include "ops/certify/workspace.h"
#include "ops/mla_attention.h"

namespace nibble {
namespace {

constexpr int64_t kHeads = 96, kNope = 128, kShared = 64, kValue = 128, kLatent = 512;
constexpr int64_t kKvRows = kHeads * (kNope + kValue);

// `rows` rows of one sequence after `depth` positions, in `layers` layers.
struct Problem {
  cpu::CpuDevice device;
  ops::certify::Workspace memory;
  std::vector<ops::MlaAttention> layers;

  Problem(int64_t rows, int64_t depth, int64_t layer_count, ops::MlaForm form, int threads)
      : device(*cpu::best_isa().kernels, threads), memory(device) {
    const int64_t pages = (depth + rows + ops::kPageTokens - 1) / ops::kPageTokens;
    ops::certify::Random random(1);
    std::vector<int32_t> ids(static_cast<size_t>(pages)), owner(static_cast<size_t>(rows), 0);
    std::iota(ids.begin(), ids.end(), 0);
    const std::vector<float> weights = random.normals(kKvRows * kLatent, 0.04);
    const std::vector<float> latents = random.normals(pages * ops::kPageTokens * (kLatent + kShared));
    const std::vector<float> queries = random.normals(rows * kHeads * (kNope + kShared));
    const auto scratch = static_cast<int64_t>(
        ops::mla_attention_scratch_bytes(device, kLatent, kNope, kShared, kValue, pages * ops::kPageTokens));
    ops::MlaAttention args = {.q = memory.rows(rows, kHeads * (kNope + kShared), DType::kBf16, queries),
                              .heads = kHeads,
                              .nope_dim = kNope,
                              .shared_dim = kShared,
                              .value_dim = kValue,
                              .scale = 0.07f,
                              .form = form,
                              .scratch = memory.poisoned_vector<std::byte>(scratch),
                              .out = memory.poisoned_rows(rows, kHeads * kValue, DType::kBf16)};
    args.sequences = {.row_begin = memory.vector<int32_t>({0, static_cast<int32_t>(rows)}),
                      .position = memory.vector<int32_t>({static_cast<int32_t>(depth)}),
                      .slot = memory.vector<int32_t>({0}),
                      .row_sequence = memory.vector(owner),
                      .pages = {memory.vector(ids).data, 1, pages, pages}};
    for (int64_t i = 0; i < layer_count; ++i) {
      args.kv_b = memory.weight(fp4::WeightFormat::kBf16, kKvRows, kLatent, weights);
      args.pool = memory.rows(pages * ops::kPageTokens, kLatent + kShared, DType::kBf16, latents);
      layers.push_back(args);
    }
  }
};

void report(benchmark::State& bench, int64_t rows, double flops, double bytes, int threads) {
  const auto rate = [&](double each) {
    return benchmark::Counter(each * static_cast<double>(bench.iterations()), benchmark::Counter::kIsRate);
  };
  bench.counters["rows/s"] = rate(static_cast<double>(rows));
  bench.counters["GFLOP/s"] = rate(flops * 1e-9);
  bench.counters["of read bandwidth"] = rate(bytes / 1e9 / read_gb_per_s(threads));
  bench.SetLabel(cpu::best_isa().name.data());
}

// Arguments: rows, depth, threads.
void attend(benchmark::State& bench, ops::MlaForm form) {
  const int64_t rows = bench.range(0), depth = bench.range(1), layers = rows == 1 ? 8 : 1;
  const int threads = static_cast<int>(bench.range(2));
  Problem problem(rows, depth, layers, form, threads);
  for (auto _ : bench) {
    for (const ops::MlaAttention& args : problem.layers) ops::mla_attention(problem.device, args);
  }
  const double r = static_cast<double>(rows * layers),
               keys = static_cast<double>(depth) + static_cast<double>(rows) / 2;
  // Absorbed: into and out of the latent, scores over latent and shared key, values over the latent.
  const double absorbed = 2.0 * kHeads * r * (kLatent * (kNope + kValue) + keys * (2 * kLatent + kShared));
  // Expanded: scores and values per row, and the widening of every key once for 32 rows.
  const double widen = static_cast<double>((rows + 31) / 32 * layers) * keys * kLatent * (kNope + kValue);
  const double expanded = 2.0 * kHeads * (r * keys * (kNope + kShared + kValue) + widen);
  const double pages = keys * (kLatent + kShared) * 2, kv_b = kKvRows * kLatent * 2;
  report(bench, rows * layers, form == ops::MlaForm::kAbsorbed ? absorbed : expanded,
         (pages + kv_b) * static_cast<double>(layers), threads);
}
BENCHMARK_CAPTURE(attend, absorbed, ops::MlaForm::kAbsorbed)
    ->ArgNames({"rows", "depth", "threads"})
    ->ArgsProduct({{1}, {128, 4096}, {1, 2}})
    ->Args({256, 1024, 2})
    ->UseRealTime();
BENCHMARK_CAPTURE(attend, expanded, ops::MlaForm::kExpanded)
    ->ArgNames({"rows", "depth", "threads"})
    ->Args({256, 1024, 2})
    ->UseRealTime();

}  // namespace
}  // namespace nibble

BENCHMARK_MAIN();
