#include "checkpoint/scale_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "fp4/format.h"

namespace nibble::checkpoint {
namespace {

// Index of the first scale that is no number, or -1.
int64_t first_bad(const MatrixSource& m) {
  const auto* const begin = reinterpret_cast<const uint8_t*>(m.scales.data());
  const uint8_t* const end = begin + m.scales.size();
  switch (m.format) {
    case fp4::WeightFormat::kMxfp4: {
      const auto* const found = static_cast<const uint8_t*>(std::memchr(begin, 255, m.scales.size()));
      return found == nullptr ? -1 : found - begin;
    }
    case fp4::WeightFormat::kNvfp4: {
      const uint8_t* const found = std::find_if(begin, end, [](uint8_t b) { return (b & 0x7F) == 0x7F; });
      return found == end ? -1 : found - begin;
    }
    case fp4::WeightFormat::kFp8Block: {
      const auto* const tiles = reinterpret_cast<const float*>(begin);
      const auto count = static_cast<int64_t>(m.scales.size() / sizeof(float));
      const float* const found = std::find_if(tiles, tiles + count, [](float f) { return !std::isfinite(f); });
      return found == tiles + count ? -1 : found - tiles;
    }
    case fp4::WeightFormat::kF32:
    case fp4::WeightFormat::kBf16:
    case fp4::WeightFormat::kMxfp8: break;  // no scales, or none that a file brings
  }
  return -1;
}

int64_t scales_per_row(const MatrixSource& m) {
  if (m.format == fp4::WeightFormat::kFp8Block) return (m.cols + fp4::Fp8Block::kTile - 1) / fp4::Fp8Block::kTile;
  return m.cols / (m.format == fp4::WeightFormat::kMxfp4 ? fp4::Mxfp4::kGroup : fp4::Nvfp4::kGroup);
}

}  // namespace

void check_scales(const MatrixSource& m, const TensorPlan& plan, int64_t slot, Problems& problems) {
  const int64_t bad = m.scales.empty() ? -1 : first_bad(m);
  if (bad < 0) return;
  problems.add(Problems::kScale, [&] {
    const int64_t row = bad / scales_per_row(m), group = bad % scales_per_row(m);
    return plan.published_name(slot, Part::kWeightScale) + " row " + std::to_string(row) + " group " +
           std::to_string(group) + " is NaN" + (m.format == fp4::WeightFormat::kMxfp4 ? " (E8M0 byte 255)" : "");
  });
}

float tensor_multiplier(const MatrixForm& form) {
  if (form.tensor_scale.empty()) return 1.0f;
  float stored = 0.0f;
  std::memcpy(&stored, form.tensor_scale.data(), sizeof stored);
  return form.scale_divides ? 1.0f / stored : stored;
}

bool usable_multiplier(float scale) { return scale > 0.0f && std::isfinite(scale); }

void check_tensor_scale(const MatrixForm& form, const TensorPlan& plan, int64_t slot, Problems& problems) {
  if (usable_multiplier(tensor_multiplier(form))) return;
  problems.add(Problems::kScale, [&] {
    float stored = 0.0f;
    std::memcpy(&stored, form.tensor_scale.data(), sizeof stored);
    const Part part = form.scale_divides ? Part::kWeightGlobalScale : Part::kWeightScale2;
    return plan.published_name(slot, part) + " is " + std::to_string(stored);
  });
}

}  // namespace nibble::checkpoint
