#include "ops/certify/workspace.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

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
