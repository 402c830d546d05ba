// Every op of the catalog at K3's real shapes on one device, each beside its limit: the larger of its bytes over the
// copy bandwidth and its operations over the matrix rate, both measured in the same run.
//
// usage: nibble_gpu_bench [DEVICE] [--json]; DEVICE as --device takes it, cuda if none. Weights and state take turns
// over several sets where one would stay in the cache. Times are of many calls enqueued one behind the other.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "backend/open_device.h"
#include "base/error.h"
#include "bench/device_memory.h"
#include "ops/kernel_table.h"
#include "ops/ops.h"

namespace nibble {
namespace {

using bench::Memory;
using fp4::WeightFormat;

constexpr int64_t kHidden = 7168, kHeads = 96, kHead = 128, kLatent = 3584, kExpert = 3072, kExperts = 128, kTopK = 16;
constexpr int64_t kVocabulary = 163840, kQueryLatent = 1536, kPageLatent = 512, kSharedKey = 64, kBlocks = 9;
constexpr DType kType = DType::kBf16;

struct Result {
  std::string op, shape;
  double seconds = 0, bytes = 0, flops = 0;
};

class Bench {
 public:
  Bench(Device& device, bool json) : device_(device), json_(json), peaks_(device.measure_peaks()) {
    if (json_) return;
    fmt::print("{} ({}): copies {:.0f} GB/s, bf16 products {:.0f} TFLOP/s, measured now\n", device.name(),
               device.description(), peaks_.copy_gb_per_s, peaks_.matrix_tflops);
    fmt::print("{:<18} {:<34} {:>10} {:>9} {:>9} {:>9} {:>7}\n", "op", "shape", "us", "GB/s", "TFLOP/s", "limit us",
               "share");
  }

  // `run(i)` enqueues the i-th call.
  void add(const char* op, const std::string& shape, double bytes, double flops, const std::function<void(int)>& run) {
    using Clock = std::chrono::steady_clock;
    int calls = 3;
    double seconds = 0;
    for (int round = 0; round < 2; ++round) {  // the first round finds how many calls take 30 ms
      for (int i = 0; i < 2; ++i) run(i);
      device_.synchronize();
      const auto begin = Clock::now();
      for (int i = 0; i < calls; ++i) run(i);
      device_.synchronize();
      seconds = std::chrono::duration<double>(Clock::now() - begin).count() / calls;
      calls = static_cast<int>(std::clamp(0.03 / seconds, 3.0, 2000.0));
    }
    const double limit = std::max(bytes / (peaks_.copy_gb_per_s * 1e9),
                                  peaks_.matrix_tflops > 0 ? flops / (peaks_.matrix_tflops * 1e12) : 0);
    if (json_) {
      fmt::print(
          "{{\"bench\":\"ops\",\"device\":\"{}\",\"op\":\"{}\",\"shape\":\"{}\",\"us\":{:.2f},\"bytes\":{:.0f},"
          "\"flops\":{:.0f},\"limit_us\":{:.3f},\"share\":{:.4f},\"copy_gb_per_s\":{:.0f},\"matrix_tflops\":{:.0f}}}\n",
          device_.name(), op, shape, seconds * 1e6, bytes, flops, limit * 1e6, limit / seconds, peaks_.copy_gb_per_s,
          peaks_.matrix_tflops);
    } else {
      fmt::print("{:<18} {:<34} {:>10.1f} {:>9.0f} {:>9.2f} {:>9.2f} {:>6.1f}%\n", op, shape, seconds * 1e6,
                 bytes / seconds / 1e9, flops / seconds / 1e12, limit * 1e6, 100 * limit / seconds);
    }
    std::fflush(stdout);
  }

 private:
  Device& device_;
  bool json_;
  Device::Peaks peaks_;
};

double d(int64_t n) { return static_cast<double>(n); }

void linears(Device& device, Bench& bench) {
  struct Shape {
    const char* name;
    std::vector<int64_t> outputs;
    int64_t cols;
    DType out;
  };
  const Shape shapes[] = {{"KDA q k v g", {12288, 12288, 12288, 12288}, kHidden, kType},
                          {"KDA o", {kHidden}, 12288, kType},
                          {"latent down", {kLatent}, kHidden, kType},
                          {"router", {896}, kHidden, DType::kF32},
                          {"head", {kVocabulary}, kHidden, DType::kF32}};
  for (const Shape& s : shapes) {
    for (const int64_t rows : {1, 8, 64, 256}) {
      Memory memory(device);
      ops::Linear args = {.x = memory.rows(rows, s.cols), .parts = {}, .part_count = 0};
      double bytes = d(rows * s.cols * 2), flops = 0;
      for (const int64_t n : s.outputs) {
        args.parts[args.part_count++] = {memory.weight(WeightFormat::kBf16, n, s.cols), memory.rows(rows, n, s.out)};
        bytes += d(n * s.cols * 2 + rows * n * bytes_of(s.out)), flops += 2 * d(rows * n * s.cols);
      }
      bench.add("linear", fmt::format("{} T={}", s.name, rows), bytes, flops, [&](int) { ops::linear(device, args); });
    }
  }
}

void experts(Device& device, Bench& bench) {
  for (const WeightFormat format : {WeightFormat::kMxfp4, WeightFormat::kNvfp4}) {
    Memory bank(device);
    const auto make = [&](int64_t rows, int64_t cols) {
      std::vector<ops::WeightMatrix> experts;
      for (int64_t e = 0; e < kExperts; ++e) experts.push_back(bank.weight(format, rows, cols));
      return ops::ExpertBank{bank.vector(experts), format, rows, cols};
    };
    const ops::ExpertBank w1 = make(kExpert, kLatent), w3 = make(kExpert, kLatent), w2 = make(kLatent, kExpert);
    for (const int64_t rows : {1, 8, 64, 256}) {
      Memory memory(device);
      std::vector<int32_t> ids;
      std::vector<bool> used(static_cast<size_t>(kExperts));
      std::mt19937_64 random(7);
      for (int64_t t = 0; t < rows; ++t) {
        std::vector<int32_t> all(static_cast<size_t>(kExperts));
        for (size_t e = 0; e < all.size(); ++e) all[e] = static_cast<int32_t>(e);
        std::shuffle(all.begin(), all.end(), random);
        std::sort(all.begin(), all.begin() + kTopK);
        for (int64_t i = 0; i < kTopK; ++i)
          ids.push_back(all[static_cast<size_t>(i)]), used[static_cast<size_t>(ids.back())] = true;
      }
      const auto scratch =
          static_cast<int64_t>(ops::moe_experts_scratch_bytes(device, rows, kTopK, kExperts, kLatent, kExpert));
      const ops::MoeExperts args = {.x = memory.rows(rows, kLatent),
                                    .ids = {memory.vector(ids).data, rows, kTopK, kTopK},
                                    .weights = memory.floats(rows, kTopK),
                                    .w1 = w1,
                                    .w3 = w3,
                                    .w2 = w2,
                                    .beta = 4.0f,
                                    .linear_beta = 25.0f,
                                    .scratch = memory.bytes(scratch),
                                    .out = memory.rows(rows, kLatent)};
      const double one = d(3 * kLatent * kExpert) * (format == WeightFormat::kMxfp4 ? 17.0 / 32 : 9.0 / 16);
      bench.add("moe_experts", fmt::format("{} T={} of {} experts", fp4::name_of(format), rows, kExperts),
                one * d(std::count(used.begin(), used.end(), true)), 2 * d(rows * kTopK * 3 * kLatent * kExpert),
                [&](int) { ops::moe_experts(device, args); });
    }
  }
}

void kda(Device& device, Bench& bench) {
  struct Shape {
    int64_t sequences, rows;
  };
  for (const Shape s : {Shape{1, 1}, {8, 1}, {64, 1}, {1, 256}}) {
    Memory memory(device);
    const int64_t rows = s.sequences * s.rows, width = kHeads * kHead;
    const int64_t state = width * kHead, records = kHeads * 16 * 3 * kHead;
    const ops::KdaRows args = {
        .q = memory.rows(rows, width),
        .k = memory.rows(rows, width),
        .v = memory.rows(rows, width),
        .decay = memory.floats(rows, width, -0.1f),
        .beta = memory.floats(rows, kHeads),
        .state = memory.floats(s.sequences * state),
        .records = memory.floats(s.sequences * records),
        .heads = kHeads,
        .key_dim = kHead,
        .value_dim = kHead,
        .sequences = memory.sequences(s.sequences, s.rows, /*position=*/s.rows == 1 ? 40 : 32, 0),
        .out = memory.rows(rows, width),
        .scratch = memory.bytes(static_cast<int64_t>(ops::kda_rows_scratch_bytes(device, kHead, kHead)))};
    // S0 is read once a segment and, where one ends, written; a single row reads half of the records on average.
    const double segments = d(s.sequences * ((s.rows + 15) / 16));
    const double bytes = d(rows * width) * (4 * 2 + 4) + segments * d(state) * 4 * (s.rows == 1 ? 1 : 2) +
                         (s.rows == 1 ? d(s.sequences * records) * 4 / 2 : 0);
    bench.add("kda_rows", fmt::format("S={} rows each {}", s.sequences, s.rows), bytes, d(rows) * d(state) * 6,
              [&](int) { ops::kda_rows(device, args); });
  }
  for (const int64_t rows : {1, 64, 256}) {
    Memory memory(device);
    const int64_t width = kHeads * kHead;
    const ops::CausalConvSilu conv = {
        .x = memory.rows(rows, width),
        .weight = memory.floats(width, 4),
        .window = memory.rows(rows * 3, width),
        .sequences = rows == 256 ? memory.sequences(1, rows, 40, 0) : memory.sequences(rows, 1, 40, 0),
        .out = memory.rows(rows, width)};
    bench.add("causal_conv_silu", fmt::format("T={} C={}", rows, width), d(rows * width * 4 + width * 16), 0,
              [&](int) { ops::causal_conv_silu(device, conv); });
    const ops::KdaGate gate = {.gate = memory.rows(rows, width),
                               .beta = memory.rows(rows, kHeads),
                               .a_log = memory.vector_of_floats(kHeads),
                               .dt_bias = memory.vector_of_floats(width),
                               .lower_bound = -5.0f,
                               .decay = memory.floats(rows, width),
                               .beta_out = memory.floats(rows, kHeads)};
    bench.add("kda_gate", fmt::format("T={}", rows), d(rows * width * 6 + width * 4), 0,
              [&](int) { ops::kda_gate(device, gate); });
    const ops::GatedRmsNorm norm = {.x = memory.rows(rows, width),
                                    .gate = memory.rows(rows, width),
                                    .weight = memory.vector_of_floats(kHead),
                                    .eps = 1e-5f,
                                    .out = memory.rows(rows, width)};
    bench.add("gated_rms_norm", fmt::format("T={}", rows), d(rows * width * 6), 0,
              [&](int) { ops::gated_rms_norm(device, norm); });
  }
}

void mla(Device& device, Bench& bench) {
  struct Shape {
    int64_t sequences, rows, position;
    ops::MlaForm form;
  };
  constexpr auto kAbsorbed = ops::MlaForm::kAbsorbed, kExpanded = ops::MlaForm::kExpanded;
  for (const Shape s : {Shape{1, 1, 4095, kAbsorbed},
                        {8, 1, 4095, kAbsorbed},
                        {64, 1, 1023, kAbsorbed},
                        {1, 256, 768, kAbsorbed},
                        {1, 256, 768, kExpanded}}) {
    Memory memory(device);
    const int64_t rows = s.sequences * s.rows, pages = (s.position + s.rows + 63) / 64;
    const auto scratch = static_cast<int64_t>(
        ops::mla_attention_scratch_bytes(device, kPageLatent, kHead, kSharedKey, kHead, pages * 64));
    const ops::MlaAttention args = {.q = memory.rows(rows, kHeads * (kHead + kSharedKey)),
                                    .kv_b = memory.weight(WeightFormat::kBf16, kHeads * 2 * kHead, kPageLatent),
                                    .pool = memory.rows(s.sequences * pages * 64, kPageLatent + kSharedKey),
                                    .sequences = memory.sequences(s.sequences, s.rows, s.position, pages),
                                    .heads = kHeads,
                                    .nope_dim = kHead,
                                    .shared_dim = kSharedKey,
                                    .value_dim = kHead,
                                    .scale = 0.07f,
                                    .form = s.form,
                                    .scratch = memory.bytes(scratch),
                                    .out = memory.rows(rows, kHeads * kHead)};
    const double keys = d(s.position) + d(s.rows + 1) / 2;  // a row, on average
    const double latents = d(s.sequences * (s.position + s.rows) * (kPageLatent + kSharedKey) * 2);
    // As published, each key is widened once a head; absorbed, queries and values go through kv_b instead.
    const double widening = s.form == kExpanded ? d(s.sequences * (s.position + s.rows)) : d(rows);
    const double per_key = s.form == kExpanded ? d(2 * kHead + kSharedKey) : d(2 * kPageLatent + kSharedKey);
    bench.add("mla_attention",
              fmt::format("{} S={} rows {} at {}", s.form == kExpanded ? "expanded" : "absorbed", s.sequences, s.rows,
                          s.position),
              latents + d(kHeads * 2 * kHead * kPageLatent * 2),
              2 * d(kHeads) * (d(rows) * keys * per_key + widening * d(2 * kHead * kPageLatent)),
              [&](int) { ops::mla_attention(device, args); });
  }
  for (const int64_t rows : {1, 64}) {
    Memory memory(device);
    const ops::MlaAppend append = {.latent = memory.rows(rows, kPageLatent),
                                   .shared_key = memory.rows(rows, kSharedKey),
                                   .sequences = memory.sequences(rows, 1, 5, 1),
                                   .pool = memory.rows(rows * 64, kPageLatent + kSharedKey)};
    bench.add("mla_append", fmt::format("T={}", rows), d(rows * 576 * 4), 0,
              [&](int) { ops::mla_append(device, append); });
    const ops::SigmoidMul gate = {.x = memory.rows(rows, kHeads * kHead),
                                  .gate = memory.rows(rows, kHeads * kHead),
                                  .out = memory.rows(rows, kHeads * kHead)};
    bench.add("sigmoid_mul", fmt::format("T={}", rows), d(rows * kHeads * kHead * 6), 0,
              [&](int) { ops::sigmoid_mul(device, gate); });
  }
}

void rest(Device& device, Bench& bench) {
  for (const int64_t rows : {1, 64, 256}) {
    Memory memory(device);
    const ops::RmsNorm norm = {.x = memory.rows(rows, kHidden),
                               .weight = memory.vector_of_floats(kHidden),
                               .eps = 1e-5f,
                               .out = memory.rows(rows, kHidden)};
    bench.add("rms_norm", fmt::format("T={} D={}", rows, kHidden), d(rows * kHidden * 4 + kHidden * 4), 0,
              [&](int) { ops::rms_norm(device, norm); });
    const ops::AttnResMix mix = {.sources = memory.rows(kBlocks * rows, kHidden),
                                 .norm = memory.vector_of_floats(kHidden),
                                 .proj = memory.vector_of_floats(kHidden),
                                 .eps = 1e-5f,
                                 .out = memory.rows(rows, kHidden)};
    bench.add("attn_res_mix", fmt::format("T={} {} sources", rows, kBlocks),
              d((kBlocks + 1) * rows * kHidden * 2 + kHidden * 8), 0, [&](int) { ops::attn_res_mix(device, mix); });
    const ops::Add add = {
        .a = memory.rows(rows, kHidden), .b = memory.rows(rows, kHidden), .out = memory.rows(rows, kHidden)};
    bench.add("add", fmt::format("T={}", rows), d(rows * kHidden * 6), 0, [&](int) { ops::add(device, add); });
    const ops::Situ situ = {.gate = memory.rows(rows, kExpert),
                            .up = memory.rows(rows, kExpert),
                            .beta = 4.0f,
                            .linear_beta = 25.0f,
                            .out = memory.rows(rows, kExpert)};
    bench.add("situ", fmt::format("T={} F={}", rows, kExpert), d(rows * kExpert * 6), 0,
              [&](int) { ops::situ(device, situ); });
    const ops::MoeRoute route = {.logits = memory.floats(rows, 896),
                                 .bias = memory.vector_of_floats(896),
                                 .ids = {memory.ints(rows * kTopK).data, rows, kTopK, kTopK},
                                 .weights = memory.floats(rows, kTopK),
                                 .scale = 2.5f};
    bench.add("moe_route", fmt::format("T={} E=896 k={}", rows, kTopK), d(rows * 896 * 4 + 896 * 4), 0,
              [&](int) { ops::moe_route(device, route); });
    const ops::Embedding embed = {.tokens = memory.ints(rows),
                                  .table = memory.weight(WeightFormat::kBf16, 4096, kHidden),
                                  .out = memory.rows(rows, kHidden)};
    bench.add("embedding", fmt::format("T={}", rows), d(rows * kHidden * 4), 0,
              [&](int) { ops::embedding(device, embed); });
    const ops::SelectRows select = {
        .x = memory.rows(rows, kHidden), .rows = memory.ints(rows), .out = memory.rows(rows, kHidden)};
    bench.add("select_rows", fmt::format("T={}", rows), d(rows * kHidden * 4), 0,
              [&](int) { ops::select_rows(device, select); });
  }
  for (const int64_t rows : {1, 64}) {
    for (const float temperature : {0.0f, 0.01f}) {  // logits lie in [-1, 1): about as peaked as a model's
      Memory memory(device);
      std::vector<ops::SampleRow> how(static_cast<size_t>(rows), {.temperature = temperature, .top_p = 0.95f});
      for (size_t i = 0; i < how.size(); ++i) how[i].seed = i;
      const ops::Sample args = {
          .logits = memory.floats(rows, kVocabulary),
          .rows = memory.vector(how),
          .seen_ids = {},
          .seen_counts = {},
          .bias_ids = {},
          .bias_values = {},
          .scratch = memory.bytes(static_cast<int64_t>(ops::sample_scratch_bytes(device, kVocabulary))),
          .ids = memory.ints(rows),
          .status = memory.ints(rows)};
      bench.add("sample", fmt::format("R={} {}", rows, temperature > 0 ? "top-p 0.95" : "greedy"),
                d(rows * kVocabulary * 4), 0, [&](int) { ops::sample(device, args); });
    }
  }
}

int run(int argc, char** argv) {
  std::string name = "cuda";
  bool json = false;
  for (int i = 1; i < argc; ++i) std::strcmp(argv[i], "--json") == 0 ? void(json = true) : void(name = argv[i]);
  const auto device = backend::open_device({.device = name});
  Bench bench(*device, json);
  linears(*device, bench);
  experts(*device, bench);
  kda(*device, bench);
  mla(*device, bench);
  rest(*device, bench);
  return 0;
}

}  // namespace
}  // namespace nibble

int main(int argc, char** argv) {
  try {
    return nibble::run(argc, argv);
  } catch (const nibble::Refusal& refusal) {
    fmt::print(stderr, "{}\n", refusal.what());
    return 2;
  }
}
