#include "testing/deferred_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <thread>

#include "base/arena.h"
#include "ops/ops.h"

namespace nibble::testing {
namespace {

size_t whole_pages(size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

// The kernel in a table entry, run later with a copy of its arguments.
template <auto Member, class Args>
void deferred(Device& device, const Args& args) {
  auto& self = static_cast<DeferredDevice&>(device);
  self.enqueue([&self, args] { (self.inner().kernels().*Member)(self.inner(), args); });
}

template <auto Member, class Args>
ops::Kernel<Args> deferred_entry(ops::Kernel<Args> ops::KernelTable::*) {
  return deferred<Member, Args>;
}

}  // namespace

DeferredDevice::DeferredDevice(const ops::KernelTable& kernels) : inner_(kernels, 2) {
  table_.name = "deferred";
  table_.scratch = kernels.scratch;
  ops::for_each_kernel([&]<auto Member>(const char*) {
    if (kernels.*Member != nullptr) table_.*Member = deferred_entry<Member>(Member);
  });
}

DeferredDevice::~DeferredDevice() {
  for (std::byte* memory : slabs_) release(memory);
}

std::byte* DeferredDevice::allocate(size_t bytes) {
  allocated_ += static_cast<int64_t>(bytes);
  return map(bytes);
}

std::byte* DeferredDevice::map(size_t bytes) {
  const size_t size = whole_pages(bytes == 0 ? 1 : bytes);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  std::memset(memory, 0xFF, size);
  mprotect(memory, size, PROT_NONE);
  mappings_[static_cast<std::byte*>(memory)] = size;
  return static_cast<std::byte*>(memory);
}

void DeferredDevice::release(std::byte* memory) noexcept {
  const auto it = mappings_.find(memory);
  munmap(it->first, it->second);
  mappings_.erase(it);
}

const std::byte* DeferredDevice::adopt(std::span<const std::byte> host) {
  const size_t size = (host.size() + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
  allocated_ += static_cast<int64_t>(host.size());
  if (slabs_.empty() || size > mappings_[slabs_.back()] - slab_used_) {
    slabs_.push_back(map(std::max(size, size_t{8} << 20)));
    slab_used_ = 0;
  }
  std::byte *const slab = slabs_.back(), *const memory = slab + slab_used_;
  slab_used_ += size;
  mprotect(slab, mappings_[slab], PROT_READ | PROT_WRITE);
  if (!host.empty()) std::memcpy(memory, host.data(), host.size());
  mprotect(slab, mappings_[slab], PROT_NONE);
  return memory;
}

void DeferredDevice::copy_in(std::byte* to, std::span<const std::byte> host) {
  enqueue([this, to, host] { inner_.copy_in(to, host); });
}
void DeferredDevice::copy_out(std::span<std::byte> host, const std::byte* from) {
  enqueue([this, host, from] { inner_.copy_out(host, from); });
}
void DeferredDevice::fill_zero(std::byte* memory, size_t bytes) {
  enqueue([this, memory, bytes] { inner_.fill_zero(memory, bytes); });
}

namespace {

class Queued final : public Device::Recording {
 public:
  Queued(DeferredDevice& device, std::vector<std::function<void()>> work) : device_(device), work_(std::move(work)) {}
  void enqueue() override {
    for (const auto& work : work_) device_.enqueue(work);
  }

 private:
  DeferredDevice& device_;
  std::vector<std::function<void()>> work_;
};

}  // namespace

std::unique_ptr<Device::Recording> DeferredDevice::record(const std::function<void()>& enqueue) {
  std::vector<std::function<void()>> before = std::exchange(queue_, {});
  enqueue();
  return std::make_unique<Queued>(*this, std::exchange(queue_, std::move(before)));
}

void DeferredDevice::protect(int protection) {
  for (const auto& [memory, size] : mappings_) mprotect(memory, size, protection);
}

void DeferredDevice::synchronize() {
  enqueued_ += static_cast<int64_t>(queue_.size());
  if (queue_.empty()) return;
  std::thread([this] {
    protect(PROT_READ | PROT_WRITE);
    for (const auto& work : queue_) work();
    protect(PROT_NONE);
  }).join();
  queue_.clear();
}

}  // namespace nibble::testing
