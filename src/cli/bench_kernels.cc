#include <numeric>

#include "cli/bench_ops.h"
#include "fp4/weight_bytes.h"
#include "ops/certify/steps.h"
#include "ops/kda_rows.h"
#include "ops/linear.h"
#include "ops/moe_experts.h"

namespace nibble::cli {
namespace {

using fp4::WeightFormat;
using ops::certify::Random;
using ops::certify::Workspace;

constexpr int64_t kPoolBytes = int64_t{1} << 30;  // of codes
constexpr int64_t kLatent = 3584, kExpertWidth = 3072, kExperts = 48, kTopK = 16;
constexpr int64_t kHidden = 7168, kProjection = 12288;
constexpr int64_t kHeads = 96, kHeadDim = 128, kSlots = 48;

int64_t weight_bytes(WeightFormat format, int64_t rows, int64_t cols) {
  return fp4::code_bytes(format, rows, cols) + fp4::scale_bytes(format, rows, cols);
}

ops::ExpertBank bank(BenchMemory& memory, WeightFormat format, int64_t rows, int64_t cols) {
  std::vector<ops::WeightMatrix> experts;
  for (int64_t e = 0; e < kExperts; ++e) experts.push_back(memory.matrix(format, rows, cols));
  return {memory.workspace().vector(experts), format, rows, cols};
}

// One token through sixteen experts; others than the call before.
OpBench experts(BenchMemory& memory, WeightFormat format) {
  Workspace& at = memory.workspace();
  Random random(1);
  const auto scratch =
      static_cast<int64_t>(ops::moe_experts_scratch_bytes(memory.device(), 1, kTopK, kExperts, kLatent, kExpertWidth));
  ops::MoeExperts args = {.x = at.rows(1, kLatent, DType::kBf16, random.normals(kLatent)),
                          .ids = {},
                          .weights = at.matrix(1, kTopK, std::vector<float>(kTopK, 0.25f)),
                          .w1 = bank(memory, format, kExpertWidth, kLatent),
                          .w3 = bank(memory, format, kExpertWidth, kLatent),
                          .w2 = bank(memory, format, kLatent, kExpertWidth),
                          .beta = 4.0f,
                          .linear_beta = 25.0f,
                          .scratch = at.poisoned_vector<std::byte>(scratch),
                          .out = at.poisoned_rows(1, kLatent, DType::kBf16)};
  std::vector<View2<const int32_t>> choices;
  for (int64_t first = 0; first + kTopK <= kExperts; first += kTopK) {
    std::vector<int32_t> ids(kTopK);
    std::iota(ids.begin(), ids.end(), static_cast<int32_t>(first));
    choices.push_back(at.matrix(1, kTopK, ids));
  }
  return {.call =
              [&memory, args, choices](int64_t i) mutable {
                args.ids = choices[static_cast<size_t>(i) % choices.size()];
                ops::moe_experts(memory.device(), args);
              },
          .limit = Limit::kReadBandwidth,
          .work = static_cast<double>(kTopK * 3 * weight_bytes(format, kExpertWidth, kLatent))};
}

// `rows` activations times one of enough matrices.
OpBench product(BenchMemory& memory, WeightFormat format, int64_t rows, int64_t outputs, int64_t cols) {
  Workspace& at = memory.workspace();
  Random random(1);
  std::vector<ops::WeightMatrix> matrices;
  for (int64_t bytes = 0; bytes < kPoolBytes / 2 || matrices.size() < 2;
       bytes += fp4::code_bytes(format, outputs, cols)) {
    matrices.push_back(memory.matrix(format, outputs, cols));
  }
  ops::Linear args = {
      .x = at.rows(rows, cols, DType::kBf16, random.normals(rows * cols)), .parts = {}, .part_count = 1};
  args.parts[0].out = at.poisoned_rows(rows, outputs, DType::kBf16);
  return {.call =
              [&memory, args, matrices](int64_t i) mutable {
                args.parts[0].weight = matrices[static_cast<size_t>(i) % matrices.size()];
                ops::linear(memory.device(), args);
              },
          .limit = rows == 1 ? Limit::kReadBandwidth : Limit::kMultiplyAdd,
          .work = static_cast<double>(rows == 1 ? weight_bytes(format, outputs, cols) : 2 * rows * outputs * cols)};
}

// `rows` of one of many sequences. Of single rows a call takes sixteen, one at each place of a segment: the last one
// costs two or three times as much as the others.
OpBench kda(BenchMemory& memory, int64_t rows) {
  Workspace& at = memory.workspace();
  Random random(1);
  const int64_t cols = kHeads * kHeadDim, slots = rows == 1 ? kSlots : 1;
  std::vector<float> decay(static_cast<size_t>(rows * cols));
  for (float& g : decay) g = static_cast<float>(-0.2 * random.uniform());
  const auto input = [&] { return at.rows(rows, cols, DType::kBf16, random.normals(rows * cols)); };
  const auto scratch = static_cast<int64_t>(ops::kda_rows_scratch_bytes(memory.device(), kHeadDim, kHeadDim));
  const int64_t state = cols * kHeadDim, records = cols * ops::kSegmentTokens * 3;
  const auto floats = [&](int64_t count) {
    return at.vector(std::vector<float>(static_cast<size_t>(slots * count), 0.01f));
  };
  ops::KdaRows args = {.q = input(),
                       .k = input(),
                       .v = input(),
                       .decay = at.matrix(rows, cols, decay),
                       .beta = at.matrix(rows, kHeads, std::vector<float>(static_cast<size_t>(rows * kHeads), 0.5f)),
                       .state = floats(state),
                       .records = floats(records),
                       .heads = kHeads,
                       .key_dim = kHeadDim,
                       .value_dim = kHeadDim,
                       .sequences = {},
                       .out = at.poisoned_rows(rows, cols, DType::kBf16),
                       .scratch = at.poisoned_vector<std::byte>(scratch)};
  std::vector<ops::Sequences> steps;
  for (int64_t s = 0; s < slots; ++s) {
    const auto position = static_cast<int32_t>(rows == 1 ? 16 + s % ops::kSegmentTokens : 16);
    steps.push_back(ops::certify::sequences(at, {{static_cast<int32_t>(rows)}, {position}, {static_cast<int32_t>(s)}}));
  }
  // Sixteen rows read the state each, a G and the keys and values of the records before theirs (7.5 on average), write
  // a record each, and the state once. Many are bound by products: S0 with k and with q, the fold, and within a segment
  // eight others' keys and values on average, twice each.
  const int64_t each = rows == 1 ? ops::kSegmentTokens : 1;  // steps of a call
  const double bytes =
      4.0 * (static_cast<double>(state * (each + 1)) + static_cast<double>(cols * each) * (1 + 15 + 3));
  const double products = 3.0 * kHeadDim * kHeadDim + 4.0 * 8 * kHeadDim;
  return {.call =
              [&memory, args, steps, each](int64_t i) mutable {
                for (int64_t s = i * each; s < (i + 1) * each; ++s) {
                  args.sequences = steps[static_cast<size_t>(s) % steps.size()];
                  ops::kda_rows(memory.device(), args);
                }
              },
          .limit = rows == 1 ? Limit::kReadBandwidth : Limit::kMultiplyAddF32,
          .work = rows == 1 ? bytes : 2.0 * products * static_cast<double>(rows * kHeads)};
}

}  // namespace

std::string_view name_of(Limit limit) {
  switch (limit) {
    case Limit::kReadBandwidth: return "read bandwidth";
    case Limit::kMultiplyAdd: return "multiply-add";
    case Limit::kMultiplyAddF32: return "multiply-add of fp32";
  }
  return {};
}

ByteRing::ByteRing(int64_t bytes, uint64_t keep, uint64_t set)
    : pages_(static_cast<size_t>(bytes)), keep_(keep), set_(set) {}

const std::byte* ByteRing::take(int64_t bytes) {
  constexpr int64_t kPage = 4096;
  if (next_ + bytes > static_cast<int64_t>(pages_.size())) next_ = 0;
  const std::byte* at = static_cast<const std::byte*>(pages_.data()) + next_;
  next_ += (bytes + kPage - 1) / kPage * kPage;
  auto* words = static_cast<uint64_t*>(pages_.data());
  for (; filled_ < next_; filled_ += static_cast<int64_t>(sizeof(uint64_t))) {
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    words[filled_ / static_cast<int64_t>(sizeof(uint64_t))] = ((random_ ^ random_ >> 29) & keep_) | set_;
  }
  return at;
}

// Any pair of code bytes is a bf16 number near one thousandth, and any byte two E2M1 codes. Scales are 2^-11 .. 2^-8
// and 2^-4 .. 2^-3, and a scale byte is read once a call as well.
BenchMemory::BenchMemory(Device& device)
    : device_(device),
      workspace_(device),
      codes_(kPoolBytes, 0x80FF80FF80FF80FFu, 0x3A003A003A003A00u),
      e8m0_(kPoolBytes / 16, 0x0303030303030303u, 0x7474747474747474u),
      e4m3_(kPoolBytes / 8, 0x0707070707070707u, 0x1818181818181818u) {}

ops::WeightMatrix BenchMemory::matrix(WeightFormat format, int64_t rows, int64_t cols) {
  const int64_t codes = fp4::code_bytes(format, rows, cols), scales = fp4::scale_bytes(format, rows, cols);
  ops::WeightMatrix out = {.format = format, .rows = rows, .cols = cols, .codes = codes_.take(codes)};
  if (scales != 0) out.scales = (format == WeightFormat::kMxfp4 ? e8m0_ : e4m3_).take(scales);
  return out;
}

OpBench make_op_bench(std::string_view name, BenchMemory& memory) {
  if (name == "experts.mxfp4.m1") return experts(memory, WeightFormat::kMxfp4);
  if (name == "experts.nvfp4.m1") return experts(memory, WeightFormat::kNvfp4);
  if (name == "linear.bf16.m1") return product(memory, WeightFormat::kBf16, 1, kProjection, kHidden);
  if (name == "kda.rows.m1") return kda(memory, 1);
  if (name == "gemm.mxfp4.m128") return product(memory, WeightFormat::kMxfp4, 128, kExpertWidth, kLatent);
  if (name == "gemm.mxfp4.m512") return product(memory, WeightFormat::kMxfp4, 512, kExpertWidth, kLatent);
  if (name == "gemm.bf16.m512") return product(memory, WeightFormat::kBf16, 512, kProjection, kHidden);
  return kda(memory, 2048);
}

}  // namespace nibble::cli
