#include "ops/certify/entries.h"

namespace nibble::ops::certify {

std::span<const Entry> catalog() {
  static constexpr Entry kEntries[] = {
      {"rms_norm", "root-mean-square normalisation", rms_norm},
  };
  return kEntries;
}

}  // namespace nibble::ops::certify
