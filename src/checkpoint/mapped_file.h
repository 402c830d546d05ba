// A file mapped for reading. Nothing is copied and nothing is read before it is touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

namespace nibble::checkpoint {

class MappedFile {
 public:
  MappedFile() = default;
  // Refusal when there is no such regular file or it cannot be read; `rule` says what it is for.
  static MappedFile open(const std::filesystem::path& path, std::string_view rule);
  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~MappedFile();

  // Reads the whole file and keeps it in memory while it is mapped. Refusal where the memory, or the limit of what a
  // process may lock, is too small.
  void lock() const;

  // What was read of it need not stay in memory: it comes from the file again where it is touched. No effect on what is
  // locked.
  void release() const;

  int64_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, static_cast<size_t>(size_)}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), static_cast<size_t>(size_)}; }
  // Bytes that may be read from `offset` on: the file's, and the zeros that fill its last page.
  int64_t readable_from(int64_t offset) const;

 private:
  const std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace nibble::checkpoint
