#include "testing/allocations.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace nibble::testing {
namespace {

std::atomic<int64_t> count{0}, bytes{0};

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  count.fetch_add(1, std::memory_order_relaxed);
  bytes.fetch_add(static_cast<int64_t>(malloc_usable_size(memory)), std::memory_order_relaxed);
  return memory;
}

void give_back(void* memory) noexcept {
  if (memory == nullptr) return;
  bytes.fetch_sub(static_cast<int64_t>(malloc_usable_size(memory)), std::memory_order_relaxed);
  std::free(memory);
}

void* aligned(size_t size, std::align_val_t alignment) {
  const auto a = static_cast<size_t>(alignment);
  return counted(std::aligned_alloc(a, (size + a - 1) / a * a));
}

}  // namespace

int64_t allocations() { return count.load(); }
int64_t allocated_bytes() { return bytes.load(); }

}  // namespace nibble::testing

// All forms that anything here asks for: the sanitizers have their own of those that are left out, and memory of one is
// not to be given back by the other.
void* operator new(size_t size) { return nibble::testing::counted(std::malloc(size == 0 ? 1 : size)); }
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  try {
    return ::operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new(size_t size, std::align_val_t alignment) { return nibble::testing::aligned(size, alignment); }
void* operator new[](size_t size) { return ::operator new(size); }
void* operator new[](size_t size, const std::nothrow_t& nothrow) noexcept { return ::operator new(size, nothrow); }
void operator delete[](void* memory) noexcept { nibble::testing::give_back(memory); }
void operator delete[](void* memory, size_t) noexcept { nibble::testing::give_back(memory); }
void operator delete(void* memory) noexcept { nibble::testing::give_back(memory); }
void operator delete(void* memory, size_t) noexcept { nibble::testing::give_back(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { nibble::testing::give_back(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { nibble::testing::give_back(memory); }
