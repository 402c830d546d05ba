// A sequence's copy in a file of its own: where host memory has no room for it.
//
// The file has a header, which says what belongs to it and sums up both, and then the bytes. It is there as long as its
// object is. Reading holds it against its sums: a file that somebody or some disk has changed is never believed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace nibble::cache {

class SnapshotFile {
 public:
  SnapshotFile() = default;
  SnapshotFile(SnapshotFile&& other) noexcept { swap(other); }
  SnapshotFile& operator=(SnapshotFile&& other) noexcept {
    swap(other);
    return *this;
  }
  ~SnapshotFile();  // removes it

  // A new file in the directory. All of these throw std::runtime_error with the file's name and what is wrong.
  static SnapshotFile create(const std::filesystem::path& directory);
  void write(std::span<const std::byte> bytes);  // behind what was written
  // Writes the header. `shape` and `length` are of what was written, and have to be the same when it is read.
  void finish(uint64_t shape, int64_t length);

  void begin_reading(uint64_t shape, int64_t length);
  void read(std::span<std::byte> bytes);  // what follows, in the pieces in which it was written
  void end_reading();                     // where the bytes are not those that were written, they must not be used

  bool is_open() const { return file_ >= 0; }
  const std::filesystem::path& path() const { return path_; }

 private:
  struct Header {
    char magic[8];
    uint64_t shape = 0;
    int64_t length = 0, bytes = 0;
    uint64_t bytes_sum = 0, header_sum = 0;
  };
  void swap(SnapshotFile& other) noexcept;
  [[noreturn]] void fail(const char* what, int error) const;

  std::filesystem::path path_;
  int file_ = -1;
  int64_t at_ = 0;  // bytes behind the header, written or read
  uint64_t sum_ = 0;
  Header header_{};
};

}  // namespace nibble::cache
