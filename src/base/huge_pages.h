// Anonymous memory in huge pages where the system has them: what benchmarks read, so that they do not time page walks.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>

namespace nibble {

class HugePages {
 public:
  // Zeroed. Throws std::bad_alloc.
  explicit HugePages(size_t bytes) : bytes_(bytes) {
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
    ::madvise(data_, bytes, MADV_HUGEPAGE);
  }
  ~HugePages() { ::munmap(data_, bytes_); }
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;

  void* data() const { return data_; }
  size_t size() const { return bytes_; }

 private:
  void* data_;
  size_t bytes_;
};

}  // namespace nibble
