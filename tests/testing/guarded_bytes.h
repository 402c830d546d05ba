// Bytes whose last one is the last of a page, with nothing mapped behind: a read past the end is a fault.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>

namespace nibble::testing {

class GuardedBytes {
 public:
  GuardedBytes(const void* bytes, int64_t size) : size_(static_cast<size_t>(size)) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t readable = (size_ + page - 1) / page * page;
    mapped_ = readable + page;
    void* memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::byte*>(memory);
    begin_ = base_ + readable - size_;
    if (size_ != 0) std::memcpy(begin_, bytes, size_);
    mprotect(base_ + readable, page, PROT_NONE);
  }
  ~GuardedBytes() { munmap(base_, mapped_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  std::span<const std::byte> bytes() const { return {begin_, size_}; }

 private:
  size_t size_, mapped_ = 0;
  std::byte *base_ = nullptr, *begin_ = nullptr;
};

}  // namespace nibble::testing
