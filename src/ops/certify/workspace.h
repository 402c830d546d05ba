// Memory for one op call, on a device or on the host, filled from a seed: built twice with one seed, the same problem
// runs once on a kernel and once on the reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "base/device.h"
#include "base/view.h"
#include "fp4/weight_format.h"
#include "ops/weight.h"

namespace nibble::ops::certify {

// Seeded values that are the same on every platform (the standard distributions are not).
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }  // [0, 1)
  double normal();
  int64_t below(int64_t n) { return static_cast<int64_t>(uniform() * static_cast<double>(n)); }
  std::vector<float> normals(int64_t count, double scale = 1.0);

 private:
  std::mt19937_64 engine_;
};

class Workspace {
 public:
  Workspace() = default;  // host memory: what references need
  explicit Workspace(Device& device) : device_(&device) {}

  // Values given, copied in. bf16 rounds them.
  Rows rows(int64_t rows, int64_t cols, DType dtype, std::span<const float> values);
  // Outputs: every byte 0xFF (NaN, -1), so that what a kernel forgets to write shows.
  Rows poisoned_rows(int64_t rows, int64_t cols, DType dtype);
  template <class T>
  View1<T> vector(const std::vector<T>& values) {
    return {reinterpret_cast<T*>(put(values.data(), values.size() * sizeof(T))), static_cast<int64_t>(values.size())};
  }
  template <class T>
  View2<T> matrix(int64_t rows, int64_t cols, const std::vector<T>& values) {
    return {vector(values).data, rows, cols, cols};
  }
  template <class T>
  View2<T> poisoned_matrix(int64_t rows, int64_t cols) {
    return {reinterpret_cast<T*>(poison(static_cast<size_t>(rows * cols) * sizeof(T))), rows, cols, cols};
  }
  template <class T>
  View1<T> poisoned_vector(int64_t size) {
    return {reinterpret_cast<T*>(poison(static_cast<size_t>(size) * sizeof(T))), size};
  }
  // Weights given, quantised to `format` (scales from the largest value of each group, tile and tensor).
  WeightMatrix weight(fp4::WeightFormat format, int64_t rows, int64_t cols, std::span<const float> values);
  // Random normal weights of standard deviation `scale`, quantised to `format`.
  WeightMatrix weight(fp4::WeightFormat format, int64_t rows, int64_t cols, Random& random, double scale);

  // Read back, after everything enqueued has run. Activations come as fp32 (exact for both dtypes).
  std::vector<float> read(const ConstRows& rows);
  template <class T>
  std::vector<T> read(View1<const T> v) {
    std::vector<T> out(static_cast<size_t>(v.size));
    fetch(out.data(), v.data, out.size() * sizeof(T));
    return out;
  }
  template <class T>
  std::vector<T> read(const View2<T>& v) {
    return read(View1<const T>{v.data, v.rows * v.stride});
  }

 private:
  std::byte* put(const void* bytes, size_t size);
  std::byte* poison(size_t size);
  void fetch(void* to, const void* from, size_t size);

  Device* device_ = nullptr;
  std::vector<DeviceBuffer> device_memory_;
  std::vector<std::unique_ptr<std::byte[]>> host_memory_;
};

// The worst |got - want| of a row over the row's largest |want|, over all rows of `cols` values; NaN if any is NaN
// where the other is not.
double row_error(std::span<const float> got, std::span<const float> want, int64_t cols);

}  // namespace nibble::ops::certify
