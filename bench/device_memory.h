// Device memory for benches, filled with arbitrary finite values from one random pool: never zeros, which hide costs.
#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "base/device.h"
#include "ops/sequences.h"
#include "ops/weight.h"

namespace nibble::bench {

class Memory {
 public:
  explicit Memory(Device& device) : device_(device) {}

  Rows rows(int64_t rows, int64_t cols, DType dtype = DType::kBf16) {
    return {filled(rows * cols * bytes_of(dtype), dtype == DType::kBf16 ? bf16_pool() : f32_pool()), dtype, rows, cols,
            cols};
  }
  View1<float> floats(int64_t count) { return {reinterpret_cast<float*>(filled(count * 4, f32_pool())), count}; }
  View2<float> floats(int64_t rows, int64_t cols) { return {floats(rows * cols).data, rows, cols, cols}; }
  View2<float> floats(int64_t rows, int64_t cols, float value) {
    const std::vector<float> values(static_cast<size_t>(rows * cols), value);
    return {vector(values).data, rows, cols, cols};
  }
  View1<const float> vector_of_floats(int64_t count) { return floats(count); }
  View1<int32_t> ints(int64_t count) { return vector(std::vector<int32_t>(static_cast<size_t>(count))); }
  View1<std::byte> bytes(int64_t count) { return {take(count), count}; }
  template <class T>
  View1<T> vector(const std::vector<T>& values) {
    std::byte* to = take(static_cast<int64_t>(values.size() * sizeof(T)));
    device_.copy_in(to, std::as_bytes(std::span(values)));
    device_.synchronize();
    return {reinterpret_cast<T*>(to), static_cast<int64_t>(values.size())};
  }

  ops::WeightMatrix weight(fp4::WeightFormat format, int64_t rows, int64_t cols) {
    ops::WeightMatrix out{format, rows, cols};
    if (format == fp4::WeightFormat::kBf16) {
      out.codes = filled(rows * cols * 2, bf16_pool());
      return out;
    }
    out.codes = filled(rows * cols / 2, byte_pool());
    out.scales = filled(rows * cols / ops::group_columns(format), scale_pool(format));
    out.tensor_scale = format == fp4::WeightFormat::kNvfp4 ? 0.01f : 1.0f;
    return out;
  }

  // `count` sequences of `rows` rows from one position on, each with a slot and `pages` pages of its own.
  ops::Sequences sequences(int64_t count, int64_t rows, int64_t position, int64_t pages) {
    std::vector<int32_t> begin = {0}, slot, owner, table;
    for (int32_t s = 0; s < count; ++s) {
      begin.push_back(begin.back() + static_cast<int32_t>(rows));
      slot.push_back(s);
      owner.insert(owner.end(), static_cast<size_t>(rows), s);
      for (int64_t p = 0; p < pages; ++p) table.push_back(static_cast<int32_t>(p * count + s));
    }
    const std::vector<int32_t> positions(static_cast<size_t>(count), static_cast<int32_t>(position));
    return {.row_begin = vector(begin),
            .position = vector(positions),
            .slot = vector(slot),
            .row_sequence = vector(owner),
            .pages = {vector(table).data, count, pages, pages}};
  }

 private:
  std::byte* take(int64_t bytes) {
    buffers_.emplace_back(device_, static_cast<size_t>(std::max<int64_t>(bytes, 1)));
    return buffers_.back().data();
  }
  std::byte* filled(int64_t bytes, std::span<const std::byte> pool) {
    std::byte* to = take(bytes);
    for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(pool.size())) {
      device_.copy_in(to + at, pool.first(std::min(pool.size(), static_cast<size_t>(bytes - at))));
    }
    device_.synchronize();
    return to;
  }

  static constexpr size_t kPool = size_t{4} << 20;  // values
  template <class T, class F>
  static std::span<const std::byte> pool(const F& value) {
    static const std::vector<T> values = [&] {
      std::mt19937_64 random(1);
      std::vector<T> out(kPool);
      for (T& x : out) x = value(random);
      return out;
    }();
    return std::as_bytes(std::span(values));
  }
  static float small(std::mt19937_64& random) {  // in [-1, 1)
    return static_cast<float>(static_cast<int32_t>(random() >> 32)) * 0x1p-31f;
  }
  static std::span<const std::byte> bf16_pool() {
    return pool<Bf16>([](auto& random) { return to_bf16(small(random)); });
  }
  static std::span<const std::byte> f32_pool() {
    return pool<float>([](auto& random) { return small(random); });
  }
  static std::span<const std::byte> byte_pool() {
    return pool<uint8_t>([](auto& random) { return static_cast<uint8_t>(random()); });
  }
  static std::span<const std::byte> scale_pool(fp4::WeightFormat format) {
    if (format == fp4::WeightFormat::kMxfp4) {
      return pool<uint8_t>([](auto& random) { return static_cast<uint8_t>(118 + random() % 4); });
    }
    return pool<uint8_t>([](auto& random) { return static_cast<uint8_t>(48 + random() % 16); });
  }

  Device& device_;
  std::vector<DeviceBuffer> buffers_;
};

}  // namespace nibble::bench
