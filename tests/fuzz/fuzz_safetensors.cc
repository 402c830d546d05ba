// A safetensors file of any bytes is refused, or every tensor lies in it and none overlap.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/error.h"
#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble::checkpoint;
  // An allocation of exactly the file's size, so that a read past its end is seen.
  const auto file = std::make_unique<std::byte[]>(size);
  std::copy_n(reinterpret_cast<const std::byte*>(data), size, file.get());
  try {
    const SafetensorsHeader header = parse_safetensors({file.get(), size}, static_cast<int64_t>(size), "fuzz");
    std::vector<std::pair<uint64_t, uint64_t>> extents;
    for (const TensorRecord& t : header.tensors) {
      if (t.begin > size || t.bytes > size - t.begin) std::abort();
      uint64_t elements = 1;
      for (const int64_t dim : header.shape(t)) elements *= static_cast<uint64_t>(dim);
      if (elements * static_cast<uint64_t>(bytes_of(t.dtype)) != t.bytes) std::abort();
      extents.emplace_back(t.begin, t.begin + t.bytes);
      for (const char c : t.name) static_cast<void>(*const_cast<const volatile char*>(&c));
    }
    std::sort(extents.begin(), extents.end());
    for (size_t i = 1; i < extents.size(); ++i) {
      if (extents[i].first < extents[i - 1].second) std::abort();
    }
  } catch (const nibble::Refusal&) {
  }
  return 0;
}
