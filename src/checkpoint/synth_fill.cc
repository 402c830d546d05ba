#include "checkpoint/synth_fill.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>

#include "base/bf16.h"
#include "fp4/quantize.h"

namespace nibble::checkpoint {
namespace {

constexpr int64_t kPoolValues = 1 << 20;  // 2 MiB of bf16: fits a second-level cache, far longer than any row

// SplitMix64.
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Near-normal with mean 0 and variance 1: the sum of four uniforms, from one draw.
float near_normal(uint64_t key) {
  const uint64_t u = mix(key);
  const auto sum = static_cast<float>((u & 0xFFFF) + (u >> 16 & 0xFFFF) + (u >> 32 & 0xFFFF) + (u >> 48));
  return (sum / 65536.0f - 2.0f) * 1.7320508f;
}

template <class T>
void store(std::span<std::byte> out, int64_t index, T value) {
  std::memcpy(out.data() + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

// centre + spread * normal, what each vector needs for a forward pass to stay tame.
struct Draw {
  float centre, spread;
};
Draw draw_of(const std::string& stem, const Slot& slot) {
  if (slot.storage == Storage::kFp32Head) return {0.0f, 0.5f};
  if (stem.ends_with("conv1d")) return {0.25f, 0.25f};
  if (stem.ends_with("dt_bias")) return {0.0f, 1.0f};
  if (stem.ends_with("e_score_correction_bias")) return {0.0f, 0.01f};
  if (stem.ends_with("res_proj")) return {0.0f, 0.02f};
  return {1.0f, 0.05f};  // norms
}

}  // namespace

SynthWeights::Pool SynthWeights::make_pool(int64_t cols) const {
  std::vector<float> values(static_cast<size_t>(kPoolValues));
  const float deviation = 1.0f / std::sqrt(static_cast<float>(cols));
  Pool pool;
  pool.values.resize(values.size() * sizeof(Bf16));
  float amax = 0.0f;
  for (int64_t i = 0; i < kPoolValues; ++i) {
    const float x = near_normal(mix(seed_ ^ static_cast<uint64_t>(cols) << 32) + static_cast<uint64_t>(i)) * deviation;
    values[static_cast<size_t>(i)] = x;
    amax = std::max(amax, std::fabs(x));
    store(pool.values, i, to_bf16(x).bits);
  }
  std::vector<uint8_t> codes(values.size() / 2);
  const bool nv = format_ == fp4::WeightFormat::kNvfp4;
  const auto take = [&]<class Scale>(std::vector<Scale> scales) {
    if constexpr (std::is_same_v<Scale, fp4::E4m3>) {
      pool.divisor = fp4::nvfp4_divisor(amax);
      fp4::quantize_nvfp4(values, pool.divisor, codes, scales);
    } else {
      fp4::quantize_mxfp4(values, codes, scales);
    }
    const auto bytes = std::as_bytes(std::span(scales));
    pool.scales.assign(bytes.begin(), bytes.end());
  };
  if (nv) {
    take(std::vector<fp4::E4m3>(values.size() / fp4::Nvfp4::kGroup));
  } else {
    take(std::vector<fp4::E8m0>(values.size() / fp4::Mxfp4::kGroup));
  }
  const auto bytes = std::as_bytes(std::span(codes));
  pool.codes.assign(bytes.begin(), bytes.end());
  return pool;
}

const SynthWeights::Pool& SynthWeights::pool(int64_t cols) {
  const std::lock_guard lock(mutex_);
  const auto it = pools_.find(cols);
  return it != pools_.end() ? it->second : pools_.emplace(cols, make_pool(cols)).first->second;
}

void SynthWeights::fill_vector(int64_t slot, std::span<std::byte> out) const {
  const Slot shape = plan_.describe(slot);
  const std::string stem = plan_.stem(slot);
  const Draw draw = draw_of(stem, shape);
  const bool bf16 = stored_as_bf16(stem, shape);
  const uint64_t key = mix(seed_ + static_cast<uint64_t>(slot) * 977);
  std::fill(out.begin(), out.end(), std::byte{0});  // what pads A_log
  for (int64_t i = 0; i < shape.rows * shape.cols; ++i) {
    const float x = draw.centre + draw.spread * near_normal(key + static_cast<uint64_t>(i));
    if (bf16) {
      store(out, i, to_bf16(x).bits);
    } else {
      store(out, i, x);
    }
  }
}

void SynthWeights::fill(int64_t slot, Part part, int64_t begin, int64_t end, std::span<std::byte> out) {
  const Slot shape = plan_.describe(slot);
  if (!is_matrix(shape.storage)) return fill_vector(slot, out);
  const Pool& from = pool(shape.cols);
  if (part == Part::kWeightGlobalScale) return store(out, 0, from.divisor);
  if (part == Part::kInputGlobalScale) return store(out, 0, fp4::nvfp4_divisor(16.0f));
  const std::vector<std::byte>& source = part == Part::kWeight         ? from.values
                                         : part == Part::kWeightPacked ? from.codes
                                                                       : from.scales;
  constexpr int64_t kGrain = 32;  // values: a whole group of either format
  const int64_t grains = (kPoolValues - shape.cols) / kGrain;
  const int64_t row_bytes = static_cast<int64_t>(out.size()) / (end - begin);
  const int64_t grain_bytes = static_cast<int64_t>(source.size()) / (kPoolValues / kGrain);
  const uint64_t key = mix(seed_ ^ static_cast<uint64_t>(slot));
  for (int64_t row = begin; row < end; ++row) {
    const auto grain = static_cast<int64_t>(mix(key + static_cast<uint64_t>(row)) % static_cast<uint64_t>(grains));
    std::memcpy(out.data() + (row - begin) * row_bytes, source.data() + grain * grain_bytes,
                static_cast<size_t>(row_bytes));
  }
}

}  // namespace nibble::checkpoint
