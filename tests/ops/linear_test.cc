// Contract of ops/linear.h: every kernel of this machine, every cell, against fp64; and the same bits for any number of
// rows and threads.
#include "ops/linear.h"

#include "base/error.h"
#include "cpu/cpu_device.h"
#include "cpu/isa.h"
#include "ops/certify/entries.h"
#include "ops/certify/workspace.h"
#include "testing/devices.h"
#include "testing/guarded_bytes.h"

namespace nibble::ops {
namespace {

using certify::Random;
using certify::Workspace;
using fp4::WeightFormat;

constexpr WeightFormat kFormats[] = {WeightFormat::kF32,   WeightFormat::kBf16,     WeightFormat::kMxfp4,
                                     WeightFormat::kNvfp4, WeightFormat::kFp8Block, WeightFormat::kMxfp8};

// Columns that leave a tail where the format allows one; past one panel of any kernel.
int64_t odd_columns(WeightFormat format) { return group_columns(format) == 1 ? 1077 : 1056; }

std::vector<float> multiply(Device& device, WeightFormat format, int64_t outputs, DType dtype,
                            std::span<const float> x) {
  const int64_t cols = odd_columns(format), rows = static_cast<int64_t>(x.size()) / cols;
  Workspace memory(device);
  Random random(7);
  Linear args = {.x = memory.rows(rows, cols, dtype, x), .parts = {}, .part_count = 1};
  args.parts[0] = {memory.weight(format, outputs, cols, random, 0.05),
                   memory.poisoned_rows(rows, outputs, DType::kF32)};
  linear(device, args);
  return memory.read(args.parts[0].out);
}

// A single part of fp32 in and out.
Linear one_part(Workspace& memory, int64_t rows, std::span<const float> x, const WeightMatrix& weight) {
  Linear args = {.x = memory.rows(rows, weight.cols, DType::kF32, x), .parts = {}, .part_count = 1};
  args.parts[0] = {weight, memory.poisoned_rows(rows, weight.rows, DType::kF32)};
  return args;
}

class LinearTest : public testing::OnEveryDevice {};

TEST_P(LinearTest, AgreesWithFp64) {
  for (const certify::CellResult& cell : certify::linear(device()).cells) {
    EXPECT_LE(cell.error, cell.budget) << cell.cell;
  }
}

void expect_same_rows_alone(Device& device, WeightFormat format, int64_t outputs, DType dtype,
                            std::initializer_list<size_t> counts) {
  constexpr size_t kRows = 130;
  const auto cols = static_cast<size_t>(odd_columns(format));
  Random random(1);
  const std::vector<float> x = random.normals(static_cast<int64_t>(kRows * cols));
  const std::vector<float> all = multiply(device, format, outputs, dtype, x);
  EXPECT_EQ(all, multiply(device, format, outputs, dtype, x)) << "not the same twice";
  for (const size_t rows : counts) {
    for (const size_t first : {size_t{0}, kRows - rows}) {
      const std::vector<float> some =
          multiply(device, format, outputs, dtype, std::span(x).subspan(first * cols, rows * cols));
      EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + static_cast<int64_t>(first) * outputs))
          << fp4::name_of(format) << ", " << rows << " rows from " << first << " of " << bytes_of(dtype) << " bytes";
    }
  }
}

TEST_P(LinearTest, RowDoesNotDependOnHowManyThereAre) {
  for (const WeightFormat format : kFormats) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      expect_same_rows_alone(device(), format, 21, dtype, {1, 2, 3, 5, 8, 17, 33, 64});
    }
  }
}

// More outputs than a kernel takes at once, shared by two threads: with six rows 640 of a thread's 650, with 33 fewer.
TEST_P(LinearTest, RowDoesNotDependOnHowManyThereAreInManyBlocks) {
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kMxfp4, WeightFormat::kNvfp4}) {
    expect_same_rows_alone(device(), format, 1300, DType::kBf16, {1, 6, 33});
  }
}

// Small integers and powers of two: any order of addition gives the same number, so nothing may differ at all.
TEST_P(LinearTest, ExactPayloadComesOutExact) {
  for (const WeightFormat format : kFormats) {
    const float lead = format == WeightFormat::kFp8Block ? 448.0f : 6.0f;  // keeps every scale a power of two
    Random random(3);
    std::vector<float> weights(33 * 160), x(5 * 160);
    for (size_t i = 0; i < weights.size(); ++i) {
      constexpr float kGrid[] = {0, 0.5, 1, -1.5, 2, -3, 4, -6};
      weights[i] = i % 32 == 0 ? lead : kGrid[random.below(8)];
    }
    for (float& v : x) v = static_cast<float>(random.below(9) - 4);
    Workspace there(device()), host;
    const auto problem = [&](Workspace& memory) {
      WeightMatrix w = memory.weight(format, 33, 160, weights);
      if (format == WeightFormat::kNvfp4) w.tensor_scale = 0x1p-9f;
      return one_part(memory, 5, x, w);
    };
    const Linear got = problem(there), want = problem(host);
    linear(device(), got);
    reference::linear(want);
    EXPECT_EQ(there.read(got.parts[0].out), host.read(want.parts[0].out)) << fp4::name_of(format);
  }
}

// By hand: byte 0x2B is -1.5 in the even column and 1.0 in the odd one.
TEST_P(LinearTest, LowNibbleIsTheEvenColumn) {
  std::vector<uint8_t> codes(16, 0);
  codes[0] = 0x2B;
  std::vector<float> x(64, 0.0f);
  x[0] = x[33] = 1.0f;  // row 0 takes column 0, row 1 column 1
  Workspace memory(device());
  const WeightMatrix mx = {WeightFormat::kMxfp4, 1, 32, memory.vector(codes).data,
                           memory.vector(std::vector<uint8_t>{128}).data};
  const Linear a = one_part(memory, 2, x, mx);
  linear(device(), a);
  EXPECT_EQ(memory.read(a.parts[0].out), (std::vector<float>{-3.0f, 2.0f}));
  const auto scales = memory.vector(std::vector<uint8_t>{0x40, 0x40});  // 2
  const WeightMatrix nv = {WeightFormat::kNvfp4, 1, 32, memory.vector(codes).data, scales.data, 0.25f};
  const Linear b = one_part(memory, 2, x, nv);
  linear(device(), b);
  EXPECT_EQ(memory.read(b.parts[0].out), (std::vector<float>{-0.75f, 0.5f}));
}

TEST_P(LinearTest, SmallestAndNaNScales) {
  std::vector<uint8_t> codes(48, 0x22);  // all ones
  Workspace memory(device());
  const std::vector<uint8_t> scales = {0, 255, 1};
  const std::vector<uint8_t> eights(96, 0x38);
  const WeightMatrix four = {WeightFormat::kMxfp4, 3, 32, memory.vector(codes).data, memory.vector(scales).data};
  const WeightMatrix eight = {WeightFormat::kMxfp8, 3, 32, memory.vector(eights).data, memory.vector(scales).data};
  std::vector<float> x(64, 0.0f);
  x[5] = x[32 + 6] = 1.0f;
  for (const WeightMatrix& w : {four, eight}) {
    const Linear args = one_part(memory, 2, x, w);
    linear(device(), args);
    const std::vector<float> y = memory.read(args.parts[0].out);
    for (const size_t t : {size_t{0}, size_t{3}}) {
      EXPECT_EQ(y[t], 0x1p-127f);
      EXPECT_TRUE(std::isnan(y[t + 1]));
      EXPECT_EQ(y[t + 2], 0x1p-126f);
    }
  }
}

// Alone and among others, in the first columns and in the last: what reads a scale there differs. And of all columns at
// once, for no zero may be needed to make a NaN of infinity.
TEST_P(LinearTest, EveryScaleIsExact) {
  constexpr int64_t kScales = 256, kCols = 160;
  std::vector<uint8_t> codes(kScales * kCols / 2, 0x22);  // all ones
  for (const WeightFormat format : {WeightFormat::kMxfp4, WeightFormat::kNvfp4}) {
    const int64_t group = group_columns(format), groups = kCols / group;
    std::vector<uint8_t> scales;
    for (int64_t i = 0; i < kScales * groups; ++i) scales.push_back(static_cast<uint8_t>(i / groups));
    std::vector<float> x(static_cast<size_t>(groups * kCols), 0.0f);  // a column of each group, and a row of all
    for (int64_t t = 0; t < groups; ++t) x[static_cast<size_t>(t * kCols + t * group + t)] = 1.0f;
    x.insert(x.end(), kCols, 1.0f);
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      for (const int64_t rows : {int64_t{1}, int64_t{2}, groups + 1}) {
        Workspace memory(device());
        const auto first = static_cast<size_t>((groups + 1 - rows) * kCols);
        Linear args = {.x = memory.rows(rows, kCols, dtype, std::span(x).subspan(first)), .parts = {}, .part_count = 1};
        args.parts[0] = {{format, kScales, kCols, memory.vector(codes).data, memory.vector(scales).data},
                         memory.poisoned_rows(rows, kScales, DType::kF32)};
        linear(device(), args);
        const std::vector<float> y = memory.read(args.parts[0].out);
        for (size_t i = 0; i < y.size(); ++i) {
          const auto bits = static_cast<uint8_t>(i % kScales);
          const float scale = format == WeightFormat::kMxfp4 ? to_float(fp4::E8m0{bits}) : to_float(fp4::E4m3{bits});
          const bool is_of_all = i + kScales >= y.size();
          const float want = scale * static_cast<float>(is_of_all ? kCols : 1);
          if (std::isnan(want))
            EXPECT_TRUE(std::isnan(y[i])) << fp4::name_of(format) << " " << i;
          else if (scale == 0x1p-127f && dtype == DType::kBf16)  // products of bf16 may take subnormals as zero
            EXPECT_TRUE(y[i] == want || y[i] == 0.0f) << y[i];
          else
            EXPECT_EQ(y[i], want) << fp4::name_of(format) << " " << i << ", " << rows << " rows";
        }
      }
    }
  }
}

TEST_P(LinearTest, EveryE4m3CodeIsExact) {
  std::vector<uint8_t> codes(256);
  for (size_t i = 0; i < 256; ++i) codes[i] = static_cast<uint8_t>(i);
  for (const int64_t cols : {1, 16}) {  // the tail and the body of a kernel
    std::vector<float> identity(static_cast<size_t>(cols * cols), 0.0f);
    for (int64_t t = 0; t < cols; ++t) identity[static_cast<size_t>(t * cols + t)] = 1.0f;
    Workspace memory(device());
    const WeightMatrix w = {WeightFormat::kFp8Block, 256 / cols, cols, memory.vector(codes).data,
                            memory.vector(std::vector<float>{0.5f, 0.5f}).data};
    const Linear args = one_part(memory, cols, identity, w);
    linear(device(), args);
    const std::vector<float> y = memory.read(args.parts[0].out);
    for (int64_t i = 0; i < 256; ++i) {
      const int64_t n = i / cols, t = i % cols;
      const float got = y[static_cast<size_t>(t * w.rows + n)];
      const bool nan_in_row = (n == 0x7F / cols) || (n == 0xFF / cols);
      if (nan_in_row)
        EXPECT_TRUE(std::isnan(got)) << i;
      else
        EXPECT_EQ(got, to_float(fp4::E4m3{static_cast<uint8_t>(i)}) * 0.5f) << i;
    }
  }
}

// In each place of a group, under scales that move the sum by themselves.
TEST_P(LinearTest, EveryMxfp8CodeIsExactUnderItsScale) {
  constexpr int64_t kGroup = fp4::Mxfp8::kGroup, kRows = 8;
  std::vector<uint8_t> codes(kRows * kGroup), scales;
  for (size_t i = 0; i < codes.size(); ++i) {
    const bool nan = is_nan(fp4::E4m3{static_cast<uint8_t>(i)});
    codes[i] = static_cast<uint8_t>(nan ? 0 : i);
  }
  for (uint8_t n = 0; n < kRows; ++n) scales.push_back(static_cast<uint8_t>(fp4::Mxfp8::kMaxScale.bits - 17 * n));
  std::vector<float> identity(kGroup * kGroup, 0.0f);
  for (size_t t = 0; t < kGroup; ++t) identity[t * kGroup + t] = 1.0f;
  Workspace memory(device());
  const WeightMatrix w = {WeightFormat::kMxfp8, kRows, kGroup, memory.vector(codes).data, memory.vector(scales).data};
  for (const int64_t rows : {int64_t{1}, int64_t{3}, kGroup}) {
    const Linear args = one_part(memory, rows, std::span(identity).first(static_cast<size_t>(rows * kGroup)), w);
    linear(device(), args);
    const std::vector<float> y = memory.read(args.parts[0].out);
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t n = 0; n < kRows; ++n) {
        const auto at = static_cast<size_t>(n * kGroup + t), row = static_cast<size_t>(n);
        EXPECT_EQ(y[static_cast<size_t>(t * kRows + n)],
                  to_float(fp4::E4m3{codes[at]}) * to_float(fp4::E8m0{scales[row]}))
            << n << " " << t;
      }
    }
  }
}

// Weights and activations end where memory ends.
TEST_P(LinearTest, ReadsNothingPastTheEnd) {
  for (const WeightFormat format : kFormats) {
    const int64_t cols = group_columns(format) == 1 ? 77 : 96, rows = 19;
    Random random(5);
    Workspace host;
    const WeightMatrix w = host.weight(format, rows, cols, random, 1.0);
    const int64_t bits = format == WeightFormat::kF32                                   ? 32
                         : format == WeightFormat::kBf16                                ? 16
                         : group_columns(format) == 1 || format == WeightFormat::kMxfp8 ? 8
                                                                                        : 4;
    const int64_t scales = group_columns(format) == 1 ? 4 : rows * cols / group_columns(format);
    const std::vector<float> x = random.normals(3 * cols);
    const testing::GuardedBytes codes(w.codes, rows * cols * bits / 8),
        scale_bytes(w.scales, w.scales == nullptr ? 0 : scales), activations(x.data(), 3 * cols * 4);
    for (const int64_t tokens : {1, 3}) {
      Workspace memory(device());
      WeightMatrix at_end = w;
      at_end.codes = device().adopt(codes.bytes());
      at_end.scales = device().adopt(scale_bytes.bytes());
      Linear got = one_part(memory, tokens, std::span(x).first(static_cast<size_t>(tokens * cols)), at_end);
      got.x.data = device().adopt(activations.bytes()) + (3 - tokens) * cols * 4;
      linear(device(), got);
      const Linear want = one_part(host, tokens, std::span(x).last(static_cast<size_t>(tokens * cols)), w);
      reference::linear(want);
      EXPECT_LE(certify::row_error(memory.read(got.parts[0].out), host.read(want.parts[0].out), rows), 2e-6)
          << fp4::name_of(format);
    }
  }
}

TEST_P(LinearTest, PartsMayBeColumnsOfOneBufferAndTouchNothingElse) {
  Random random(6);
  Workspace there(device()), host;
  const std::vector<float> x = random.normals(4 * 50);
  const auto problem = [&](Workspace& memory) {
    Random weights(8);
    const Rows buffer = memory.poisoned_rows(4, 40, DType::kBf16);
    Linear args = {.x = memory.rows(4, 50, DType::kBf16, x), .parts = {}, .part_count = 2};
    args.parts[0] = {memory.weight(WeightFormat::kBf16, 17, 50, weights, 1.0), buffer.columns(0, 17)};
    args.parts[1] = {memory.weight(WeightFormat::kFp8Block, 20, 50, weights, 1.0), buffer.columns(17, 20)};
    return args;
  };
  const Linear got = problem(there), want = problem(host);
  linear(device(), got);
  reference::linear(want);
  Rows all = got.parts[0].out, wanted = want.parts[0].out;
  all.cols = wanted.cols = 40;
  EXPECT_LE(certify::row_error(there.read(all), host.read(wanted), 40), 0x1p-7);  // NaN where NaN is wanted
}

TEST_P(LinearTest, NoRowsIsNoWork) {
  Workspace memory(device());
  Random random(9);
  const Linear args = one_part(memory, 0, {}, memory.weight(WeightFormat::kBf16, 4, 8, random, 1.0));
  EXPECT_NO_THROW(linear(device(), args));
}

TEST_P(LinearTest, RefusesBeforeWriting) {
  Workspace memory(device());
  Random random(9);
  const Linear good = one_part(memory, 2, random.normals(64), memory.weight(WeightFormat::kMxfp4, 4, 32, random, 1.0));
  Linear none = good, many = good, wide = good, group = good, scaled = good, narrow = good, onto_x = good, twice = good;
  none.part_count = 0;
  many.part_count = Linear::kMaxParts + 1;
  wide.parts[0].weight.cols = 64;
  group.x.cols = group.parts[0].weight.cols = 16;
  scaled.parts[0].weight.tensor_scale = 2.0f;
  narrow.parts[0].out.cols = 3;
  onto_x.parts[0].out.data = const_cast<void*>(good.x.data);
  twice.parts[1] = good.parts[0];
  twice.part_count = 2;
  for (const Linear& args : {none, many, wide, group, scaled, narrow, onto_x, twice}) {
    EXPECT_THROW(linear(device(), args), ContractError);
  }
  for (const float y : memory.read(good.parts[0].out)) EXPECT_TRUE(std::isnan(y));
}

NIBBLE_ON_EVERY_DEVICE(LinearTest);

TEST(LinearThreads, AnyNumberGivesTheSameBits) {
  Random random(1);
  for (const WeightFormat format : kFormats) {
    const std::vector<float> x = random.normals(50 * odd_columns(format));
    for (const cpu::Isa& isa : cpu::instruction_sets()) {
      if (!isa.available) continue;
      cpu::CpuDevice one(*isa.kernels, 1);
      const std::vector<float> want = multiply(one, format, 83, DType::kBf16, x);
      for (const int threads : {2, 3, 7}) {
        cpu::CpuDevice several(*isa.kernels, threads);
        EXPECT_EQ(multiply(several, format, 83, DType::kBf16, x), want) << isa.name << ", " << threads << " threads";
      }
    }
  }
}

// The error, as certification measures it, of a weight that was read wrong.
double error_of(Workspace& memory, const WeightMatrix& right, const WeightMatrix& wrong) {
  Random random(10);
  const std::vector<float> x = random.normals(2 * right.cols);
  const Linear want = one_part(memory, 2, x, right), got = one_part(memory, 2, x, wrong);
  reference::linear(want);
  reference::linear(got);
  return certify::row_error(memory.read(got.parts[0].out), memory.read(want.parts[0].out), right.rows);
}

TEST(LinearControl, HighNibbleFirstIsCaught) {
  Workspace memory;
  Random random(11);
  const WeightMatrix right = memory.weight(WeightFormat::kMxfp4, 8, 64, random, 1.0);
  std::vector<uint8_t> codes = memory.read(View1<const uint8_t>{static_cast<const uint8_t*>(right.codes), 8 * 32});
  for (uint8_t& byte : codes) byte = static_cast<uint8_t>(byte << 4 | byte >> 4);
  WeightMatrix wrong = right;
  wrong.codes = memory.vector(codes).data;
  EXPECT_GT(error_of(memory, right, wrong), 0.1);
}

TEST(LinearControl, ScalesOfTheNextGroupAreCaught) {
  Workspace memory;
  Random random(13);
  std::vector<float> values = random.normals(8 * 64);
  for (size_t i = 0; i < values.size(); ++i) values[i] *= i / 32 % 2 == 0 ? 1.0f : 4.0f;
  const WeightMatrix right = memory.weight(WeightFormat::kMxfp8, 8, 64, values);
  std::vector<uint8_t> scales = memory.read(View1<const uint8_t>{static_cast<const uint8_t*>(right.scales), 16});
  std::rotate(scales.begin(), scales.begin() + 1, scales.end());
  WeightMatrix wrong = right;
  wrong.scales = memory.vector(scales).data;
  EXPECT_GT(error_of(memory, right, wrong), 0.1);
}

TEST(LinearControl, GlobalScaleTheWrongWayRoundIsCaught) {
  Workspace memory;
  Random random(12);
  const WeightMatrix right = memory.weight(WeightFormat::kNvfp4, 8, 64, random, 1.0);
  WeightMatrix wrong = right;
  wrong.tensor_scale = 1.0f / right.tensor_scale;
  EXPECT_GT(error_of(memory, right, wrong), 0.1);
}

}  // namespace
}  // namespace nibble::ops
