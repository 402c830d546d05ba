#include "ops/certify/workspace.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "fp4/quantize.h"

namespace nibble::ops::certify {

double Random::normal() {
  const double u = 1.0 - uniform(), v = uniform();  // u in (0, 1]
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

std::vector<float> Random::normals(int64_t count, double scale) {
  std::vector<float> out(static_cast<size_t>(count));
  for (float& x : out) x = static_cast<float>(normal() * scale);
  return out;
}

std::byte* Workspace::put(const void* bytes, size_t size) {
  if (device_ == nullptr) {
    host_memory_.push_back(std::make_unique<std::byte[]>(size + 1));
    if (size != 0) std::memcpy(host_memory_.back().get(), bytes, size);
    return host_memory_.back().get();
  }
  device_memory_.emplace_back(*device_, size + 1);  // never null, so that empty views have an address
  device_->copy_in(device_memory_.back().data(), {static_cast<const std::byte*>(bytes), size});
  device_->synchronize();
  return device_memory_.back().data();
}

std::byte* Workspace::poison(size_t size) {
  const std::vector<std::byte> bytes(size, std::byte{0xFF});
  return put(bytes.data(), size);
}

void Workspace::fetch(void* to, const void* from, size_t size) {
  if (device_ == nullptr) {
    if (size != 0) std::memcpy(to, from, size);
    return;
  }
  device_->copy_out({static_cast<std::byte*>(to), size}, static_cast<const std::byte*>(from));
  device_->synchronize();
}

Rows Workspace::rows(int64_t rows, int64_t cols, DType dtype, std::span<const float> values) {
  if (dtype == DType::kF32) {
    return {put(values.data(), values.size_bytes()), dtype, rows, cols, cols};
  }
  std::vector<Bf16> narrow(values.size());
  std::transform(values.begin(), values.end(), narrow.begin(), [](float x) { return to_bf16(x); });
  return {put(narrow.data(), narrow.size() * sizeof(Bf16)), dtype, rows, cols, cols};
}

Rows Workspace::poisoned_rows(int64_t rows, int64_t cols, DType dtype) {
  return {poison(static_cast<size_t>(rows * cols * bytes_of(dtype))), dtype, rows, cols, cols};
}

namespace {

float largest(std::span<const float> values) {
  float out = 0;
  for (const float x : values) out = std::max(out, std::fabs(x));
  return out;
}

// Codes and scales of a matrix, as a file would hold them.
struct Packed {
  std::vector<uint8_t> codes, scales;
  float tensor_scale = 1.0f;
};

// kPerCode values share a code of one byte.
template <class F, class Code, size_t kPerCode, class QuantizeRow>
Packed pack_rows(std::span<const float> values, int64_t cols, const QuantizeRow& quantize_row) {
  const auto width = static_cast<size_t>(cols), groups = width / F::kGroup, rows = values.size() / width;
  const size_t row_bytes = width / kPerCode;
  Packed out{std::vector<uint8_t>(rows * row_bytes), std::vector<uint8_t>(rows * groups)};
  for (size_t n = 0; n < rows; ++n) {
    std::vector<Code> codes(row_bytes);
    std::vector<typename F::Scale> scales(groups);
    quantize_row(values.subspan(n * width, width), std::span(codes), std::span(scales));
    std::memcpy(out.codes.data() + n * row_bytes, codes.data(), row_bytes);
    for (size_t g = 0; g < groups; ++g) out.scales[n * groups + g] = scales[g].bits;
  }
  return out;
}

Packed pack_mxfp4(std::span<const float> values, int64_t cols) {
  return pack_rows<fp4::Mxfp4, uint8_t, 2>(values, cols, fp4::quantize_mxfp4);
}

Packed pack_nvfp4(std::span<const float> values, int64_t cols) {
  const float divisor = fp4::nvfp4_divisor(largest(values));
  Packed out = pack_rows<fp4::Nvfp4, uint8_t, 2>(
      values, cols, [&](auto row, auto codes, auto scales) { fp4::quantize_nvfp4(row, divisor, codes, scales); });
  out.tensor_scale = 1.0f / divisor;
  return out;
}

Packed pack_mxfp8(std::span<const float> values, int64_t cols) {
  return pack_rows<fp4::Mxfp8, fp4::E4m3, 1>(
      values, cols, [](auto row, auto codes, auto scales) { fp4::quantize_mxfp8(row, codes, scales); });
}

Packed pack_fp8_block(std::span<const float> values, int64_t cols) {
  const auto width = static_cast<size_t>(cols), tile = static_cast<size_t>(fp4::Fp8Block::kTile);
  std::vector<fp4::E4m3> codes(values.size());
  std::vector<float> scales, band((width + tile - 1) / tile);
  for (size_t first = 0; first < values.size(); first += tile * width) {
    const size_t count = std::min(tile * width, values.size() - first);
    fp4::quantize_fp8(values.subspan(first, count), width, std::span(codes).subspan(first, count), band);
    scales.insert(scales.end(), band.begin(), band.end());
  }
  Packed out{std::vector<uint8_t>(codes.size()), std::vector<uint8_t>(scales.size() * sizeof(float))};
  std::memcpy(out.codes.data(), codes.data(), out.codes.size());
  std::memcpy(out.scales.data(), scales.data(), out.scales.size());
  return out;
}

}  // namespace

WeightMatrix Workspace::weight(fp4::WeightFormat format, int64_t rows, int64_t cols, Random& random, double scale) {
  return weight(format, rows, cols, random.normals(rows * cols, scale));
}

WeightMatrix Workspace::weight(fp4::WeightFormat format, int64_t rows, int64_t cols, std::span<const float> values) {
  WeightMatrix out{format, rows, cols};
  Packed packed;
  switch (format) {
    case fp4::WeightFormat::kF32: out.codes = this->rows(rows, cols, DType::kF32, values).data; return out;
    case fp4::WeightFormat::kBf16: out.codes = this->rows(rows, cols, DType::kBf16, values).data; return out;
    case fp4::WeightFormat::kMxfp4: packed = pack_mxfp4(values, cols); break;
    case fp4::WeightFormat::kNvfp4: packed = pack_nvfp4(values, cols); break;
    case fp4::WeightFormat::kFp8Block: packed = pack_fp8_block(values, cols); break;
    case fp4::WeightFormat::kMxfp8: packed = pack_mxfp8(values, cols); break;
  }
  out.codes = put(packed.codes.data(), packed.codes.size());
  out.scales = put(packed.scales.data(), packed.scales.size());
  out.tensor_scale = packed.tensor_scale;
  return out;
}

std::vector<float> Workspace::read(const ConstRows& v) {
  std::vector<float> out;
  out.reserve(static_cast<size_t>(v.rows * v.cols));
  for (int64_t t = 0; t < v.rows; ++t) {
    if (v.dtype == DType::kF32) {
      const auto row = read(View1<const float>{static_cast<const float*>(v.data) + t * v.stride, v.cols});
      out.insert(out.end(), row.begin(), row.end());
    } else {
      for (const Bf16 x : read(View1<const Bf16>{static_cast<const Bf16*>(v.data) + t * v.stride, v.cols})) {
        out.push_back(to_float(x));
      }
    }
  }
  return out;
}

double row_error(std::span<const float> got, std::span<const float> want, int64_t cols) {
  double worst = 0;
  if (got.size() != want.size()) return std::numeric_limits<double>::quiet_NaN();
  for (size_t row = 0; row * static_cast<size_t>(cols) < want.size(); ++row) {
    const auto g = got.subspan(row * static_cast<size_t>(cols), static_cast<size_t>(cols));
    const auto w = want.subspan(row * static_cast<size_t>(cols), static_cast<size_t>(cols));
    double largest = 0, difference = 0;
    for (size_t i = 0; i < w.size(); ++i) {
      if (std::isnan(g[i]) != std::isnan(w[i])) return std::numeric_limits<double>::quiet_NaN();
      if (std::isnan(w[i]) || g[i] == w[i]) continue;
      difference = std::max(difference, std::fabs(static_cast<double>(g[i]) - static_cast<double>(w[i])));
    }
    for (const float x : w) largest = std::max(largest, std::fabs(static_cast<double>(x)));
    if (difference > 0) worst = std::max(worst, difference / largest);
  }
  return worst;
}

}  // namespace nibble::ops::certify
