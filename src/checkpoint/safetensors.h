// The header of one safetensors file: every tensor it names, checked against the file's own length.
//
// A file is a little-endian u64 N, N bytes of JSON {name: {dtype, shape, data_offsets}}, then the data. After parsing,
// every tensor lies within the data, its bytes match dtype and shape, no two overlap, nothing is left over between them
// (the format forbids holes, and a hole is how a torn file shows), and each starts aligned for its type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::checkpoint {

enum class FileDType : uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E5m2,
  kF8E4m3,
  kF8E8m0,
  kI16,
  kU16,
  kF16,
  kBf16,
  kI32,
  kU32,
  kF32,
  kI64,
  kU64,
  kF64
};
std::string_view name_of(FileDType type);
int64_t bytes_of(FileDType type);

struct TensorRecord {
  std::string_view name;
  uint64_t begin = 0, bytes = 0;  // within the file
  uint32_t shape_at = 0;          // into SafetensorsHeader::dims
  uint8_t rank = 0;
  FileDType dtype = FileDType::kU8;
};

struct SafetensorsHeader {
  std::vector<TensorRecord> tensors;  // in the order of the header
  std::vector<int64_t> dims;          // shapes, end to end
  std::deque<std::string> unescaped;  // names that had escapes; all others point into the file

  std::span<const int64_t> shape(const TensorRecord& t) const { return {dims.data() + t.shape_at, t.rank}; }
};

// `file` is the whole file, of which `readable` bytes may be read (see MappedFile::readable_from); `source` names it in
// refusals. The names point into `file`.
SafetensorsHeader parse_safetensors(std::span<const std::byte> file, int64_t readable, const std::string& source);

}  // namespace nibble::checkpoint
