// Contract of ops/causal_conv_silu.h: every kernel of this machine against fp64, and the promise that cutting a
// sequence into steps or mixing it with others never changes a bit.
#include "ops/causal_conv_silu.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "ops/certify/entries.h"
#include "ops/certify/steps.h"
#include "ops/certify/workspace.h"
#include "testing/devices.h"

namespace nibble::ops {
namespace {

using certify::Random;
using certify::Workspace;
using Floats = std::vector<float>;

constexpr int64_t kChannels = 70, kTaps = 4;

Floats normals(int64_t rows, uint64_t seed) { return Random(seed).normals(rows * kChannels); }

// What every step of a test shares: weights and the windows of `slots` slots, all of value `fill`.
struct Layer {
  Layer(Workspace& memory, int64_t slots, float fill)
      : weight(memory.matrix(kChannels, kTaps, Random(99).normals(kChannels * kTaps))),
        window(memory.rows(slots * (kTaps - 1), kChannels, DType::kF32,
                           Floats(static_cast<size_t>(slots * (kTaps - 1) * kChannels), fill))) {}
  View2<const float> weight;
  Rows window;
};

CausalConvSilu arguments(Workspace& memory, const Layer& layer, const certify::Ragged& step, const Floats& x) {
  const int64_t rows = total_rows(step);
  return {.x = memory.rows(rows, kChannels, DType::kF32, x),
          .weight = layer.weight,
          .window = layer.window,
          .sequences = sequences(memory, step),
          .out = memory.poisoned_rows(rows, kChannels, DType::kF32)};
}

Floats run(Device& device, const Layer& layer, const certify::Ragged& step, const Floats& x) {
  Workspace memory(device);
  const CausalConvSilu args = arguments(memory, layer, step, x);
  causal_conv_silu(device, args);
  return memory.read(args.out);
}

Floats part(const Floats& x, int64_t first, int64_t count) {
  return {x.begin() + first * kChannels, x.begin() + (first + count) * kChannels};
}

// A sequence alone, in steps of `sizes`; the outputs, then the window.
Floats run_cut(Device& device, const Floats& x, const std::vector<int64_t>& sizes, float fill = 0.0f) {
  Workspace memory(device);
  const Layer layer(memory, 1, fill);
  Floats result;
  const auto rows = static_cast<int64_t>(x.size()) / kChannels;
  int64_t first = 0;
  for (size_t i = 0; first < rows; ++i) {
    const int64_t count = i < sizes.size() ? std::min(sizes[i], rows - first) : rows - first;
    const Floats out =
        run(device, layer, {{static_cast<int32_t>(count)}, {static_cast<int32_t>(first)}, {0}}, part(x, first, count));
    result.insert(result.end(), out.begin(), out.end());
    first += count;
  }
  const Floats window = memory.read(layer.window);
  result.insert(result.end(), window.begin(), window.end());
  return result;
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class CausalConvSiluTest : public testing::OnEveryDevice {};

TEST_P(CausalConvSiluTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::causal_conv_silu(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

TEST_P(CausalConvSiluTest, CuttingASequenceChangesNoBit) {
  const Floats x = normals(70, 2), whole = run_cut(device(), x, {});
  for (const int64_t size : {1, 2, 3, 16, 64}) {
    EXPECT_TRUE(same_bits(run_cut(device(), x, std::vector<int64_t>(70, size)), whole)) << "chunks of " << size;
  }
  for (int64_t at = 1; at < 70; ++at) EXPECT_TRUE(same_bits(run_cut(device(), x, {at}), whole)) << "cut at " << at;
  EXPECT_TRUE(same_bits(part(whole, 70, 3), part(x, 67, 3))) << "the window keeps raw inputs, oldest first";
}

TEST_P(CausalConvSiluTest, RecycledSlotIsAsGoodAsAFreshOne) {
  const Floats x = normals(5, 3);
  EXPECT_TRUE(same_bits(run_cut(device(), x, {1, 1}, NAN), run_cut(device(), x, {1, 1})));
  EXPECT_TRUE(same_bits(run_cut(device(), part(x, 0, 1), {}, NAN), run_cut(device(), part(x, 0, 1), {})));
}

// Sequences of one step: each gets what it gets alone, NaN included, and the slots of the idle keep their bytes.
TEST_P(CausalConvSiluTest, CompanyChangesNoBit) {
  const std::vector<int32_t> counts = {1, 70, 0, 1, 64, 3}, slots = {5, 0, 3, 1, 6, 2};  // slot 4 is nobody's
  Workspace memory(device());
  const Layer layer(memory, 7, 0.5f);
  Floats x = normals(139, 4);
  x[3 * kChannels] = NAN;  // row 2 of the second sequence
  const Floats out = run(device(), layer, {counts, std::vector<int32_t>(6, 0), slots}, x);
  const Floats window = memory.read(layer.window);
  int64_t row = 0;
  for (size_t s = 0; s < counts.size(); ++s) {
    if (counts[s] == 0) continue;
    const Floats alone = run_cut(device(), part(x, row, counts[s]), {});
    EXPECT_TRUE(same_bits(part(alone, 0, counts[s]), part(out, row, counts[s]))) << s;
    EXPECT_TRUE(same_bits(part(alone, counts[s], 3), part(window, slots[s] * 3, 3))) << s;
    row += counts[s];
  }
  for (const int64_t slot : {3, 4}) EXPECT_EQ(part(window, slot * 3, 3), Floats(3 * kChannels, 0.5f));
}

TEST_P(CausalConvSiluTest, RefusesBeforeWriting) {
  Workspace memory(device());
  const Layer layer(memory, 1, 0.5f);
  const CausalConvSilu good = arguments(memory, layer, {{9}, {0}, {0}}, normals(9, 5));
  std::vector<CausalConvSilu> bad(7, good);
  bad[0].weight.cols = 9;
  bad[1].weight.rows = kChannels - 1;
  bad[2].window.rows = 2;
  bad[3].out.dtype = DType::kBf16;
  bad[4].out.data = const_cast<void*>(good.x.data);
  bad[5].x.data = layer.window.data;
  bad[6].sequences.row_begin.size = 1;
  for (size_t i = 0; i < bad.size(); ++i) EXPECT_THROW(causal_conv_silu(device(), bad[i]), ContractError) << i;
  for (const float y : memory.read(good.out)) EXPECT_TRUE(std::isnan(y));
  for (const float x : memory.read(layer.window)) EXPECT_EQ(x, 0.5f);
}

NIBBLE_ON_EVERY_DEVICE(CausalConvSiluTest);

// Rows 0..5 in one step by the reference, beside a convolution written out here with one fault at a time.
enum class Fault { kNone, kReversedTaps, kNoSilu, kWindowNotShifted };
Floats by_hand(const Floats& x, View2<const float> weight, Fault fault) {
  Floats out;
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
    const int64_t t = i / kChannels, c = i % kChannels;
    double y = 0;
    for (int64_t j = 0; j < kTaps; ++j) {
      int64_t from = t - kTaps + 1 + j;
      if (fault == Fault::kWindowNotShifted && from < t) from -= 1;  // history as it was a step ago
      if (from < 0) continue;
      const int64_t tap = fault == Fault::kReversedTaps ? kTaps - 1 - j : j;
      y += static_cast<double>(weight.row(c)[tap]) * static_cast<double>(x[static_cast<size_t>(from * kChannels + c)]);
    }
    out.push_back(static_cast<float>(fault == Fault::kNoSilu ? y : y / (1 + std::exp(-y))));
  }
  return out;
}

TEST(CausalConvSiluControl, PlantedFaultsAreCaught) {
  Workspace memory;
  const Layer layer(memory, 1, NAN);
  const Floats x = normals(6, 6);
  const CausalConvSilu args = arguments(memory, layer, {{6}, {0}, {0}}, x);
  reference::causal_conv_silu(args);
  const Floats right = memory.read(args.out);
  EXPECT_LE(certify::row_error(by_hand(x, layer.weight, Fault::kNone), right, kChannels), 1e-6);
  for (const Fault fault : {Fault::kReversedTaps, Fault::kNoSilu, Fault::kWindowNotShifted}) {
    EXPECT_GT(certify::row_error(by_hand(x, layer.weight, fault), right, kChannels), 0.1) << static_cast<int>(fault);
  }
}

}  // namespace
}  // namespace nibble::ops
