// Element types of plain (not 4-bit) tensors.
#pragma once

#include <cstdint>

namespace nibble {

enum class DType : uint8_t { kF32, kBf16, kI32 };

constexpr int64_t bytes_of(DType type) { return type == DType::kBf16 ? 2 : 4; }
constexpr const char* name_of(DType type) {
  return type == DType::kF32 ? "F32" : type == DType::kBf16 ? "BF16" : "I32";
}

}  // namespace nibble
