#include "checkpoint/requantize.h"

#include <algorithm>
#include <cstring>

#include "base/bf16.h"
#include "base/error.h"
#include "checkpoint/parallel.h"
#include "fp4/quantize.h"

namespace nibble::checkpoint {
namespace {

using fp4::WeightFormat;

constexpr int64_t kBand = fp4::Fp8Block::kTile;
constexpr int64_t kGroup = fp4::Mxfp4::kGroup;
static_assert(kGroup == fp4::Mxfp8::kGroup);

size_t bytes_of_codes(int64_t values, WeightFormat to) {
  return static_cast<size_t>(to == WeightFormat::kMxfp4 ? values / 2 : values);
}

// Bytes of scales before row `row`, which is a multiple of kBand or the end.
size_t bytes_of_scales(int64_t row, int64_t cols, WeightFormat to) {
  if (to != WeightFormat::kFp8Block) return static_cast<size_t>(row * (cols / kGroup));
  return static_cast<size_t>((row + kBand - 1) / kBand * ((cols + kBand - 1) / kBand)) * sizeof(float);
}

// Rows [first, first + rows), rows at most kBand.
void quantize_band(const MatrixSource& source, int64_t first, int64_t rows, HostMatrix& out) {
  const int64_t cols = source.cols;
  const auto width = static_cast<size_t>(cols);
  std::vector<float> values(static_cast<size_t>(rows * cols));
  const std::byte* from = source.codes.data() + first * cols * static_cast<int64_t>(sizeof(Bf16));
  for (size_t i = 0; i < values.size(); ++i) {
    Bf16 x;
    std::memcpy(&x, from + i * sizeof x, sizeof x);
    values[i] = to_float(x);
  }
  std::byte* codes = out.codes.data() + bytes_of_codes(first * cols, out.format);
  std::byte* scales = out.scales.data() + bytes_of_scales(first, cols, out.format);
  if (out.format == WeightFormat::kFp8Block) {
    std::vector<float> tiles((width + kBand - 1) / kBand);
    fp4::quantize_fp8(values, width, {reinterpret_cast<fp4::E4m3*>(codes), values.size()}, tiles);
    std::memcpy(scales, tiles.data(), tiles.size() * sizeof(float));
    return;
  }
  for (int64_t r = 0; r < rows; ++r) {
    const auto row = std::span<const float>(values).subspan(static_cast<size_t>(r) * width, width);
    std::byte* const row_codes = codes + bytes_of_codes(r * cols, out.format);
    const std::span row_scales(reinterpret_cast<fp4::E8m0*>(scales + r * (cols / kGroup)),
                               static_cast<size_t>(cols / kGroup));
    if (out.format == WeightFormat::kMxfp8)
      fp4::quantize_mxfp8(row, {reinterpret_cast<fp4::E4m3*>(row_codes), width}, row_scales);
    else
      fp4::quantize_mxfp4(row, {reinterpret_cast<uint8_t*>(row_codes), width / 2}, row_scales);
  }
}

}  // namespace

bool can_requantize(const MatrixSource& source, WeightFormat to) {
  const bool grouped = to == WeightFormat::kMxfp4 || to == WeightFormat::kMxfp8;
  return source.format == WeightFormat::kBf16 &&
         (to == WeightFormat::kFp8Block || (grouped && source.cols % kGroup == 0));
}

HostMatrix requantize(const MatrixSource& source, WeightFormat to) {
  if (!can_requantize(source, to)) throw ContractError("requantize: a bf16 matrix whose columns the format can group");
  HostMatrix out{.format = to,
                 .codes = std::vector<std::byte>(bytes_of_codes(source.rows * source.cols, to)),
                 .scales = std::vector<std::byte>(bytes_of_scales(source.rows, source.cols, to))};
  for_each_parallel((source.rows + kBand - 1) / kBand, [&](int64_t band) {
    quantize_band(source, band * kBand, std::min(kBand, source.rows - band * kBand), out);
  });
  return out;
}

}  // namespace nibble::checkpoint
