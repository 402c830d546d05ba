// How dispatchers state their rules.
#pragma once

#include <string>

#include "base/error.h"
#include "base/view.h"

namespace nibble::ops {

// Throws ContractError("<op>: <rule>") unless `ok`. Called before anything is written.
inline void require(bool ok, const char* op, const char* rule) {
  if (!ok) throw ContractError(std::string(op) + ": " + rule);
}

// Whether two views have an element in common: column ranges of one buffer overlap in extent, but need not share.
inline bool share_elements(const ConstRows& a, const ConstRows& b) {
  if (!overlap(a, b)) return false;
  if (a.stride != b.stride || a.dtype != b.dtype) return true;
  const int64_t bytes = bytes_of(a.dtype), pitch = a.stride * bytes;
  const int64_t distance = static_cast<int64_t>(extent(a).begin) - static_cast<int64_t>(extent(b).begin);
  const int64_t offset = (distance % pitch + pitch) % pitch;  // of a's columns from b's
  return offset < b.cols * bytes || offset + a.cols * bytes > pitch;
}

}  // namespace nibble::ops
