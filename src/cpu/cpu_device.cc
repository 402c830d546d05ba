#include "cpu/cpu_device.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <cstdint>
#include <cstring>
#include <new>

#include "base/arena.h"
#include "base/host_memory.h"
#include "base/read_bandwidth.h"
#include "ops/kernel_table.h"

namespace nibble::cpu {
namespace {

// State pools and arenas are read whole at every step: in huge pages that takes fewer page walks. A wish, for memory
// that holds a few of them.
void want_huge_pages([[maybe_unused]] std::byte* memory, [[maybe_unused]] size_t bytes) {
#ifdef __linux__
  constexpr uintptr_t kHugePage = uintptr_t{2} << 20;
  const auto begin = (reinterpret_cast<uintptr_t>(memory) + kHugePage - 1) / kHugePage * kHugePage;
  const auto end = (reinterpret_cast<uintptr_t>(memory) + bytes) / kHugePage * kHugePage;
  if (begin + 2 * kHugePage <= end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

// Of each worker: 128 activations of 16,384 columns. Costs nothing until used.
constexpr size_t kUsualWorkspace = size_t{9} << 20;

}  // namespace

CpuDevice::CpuDevice(const ops::KernelTable& kernels, int threads, const std::vector<int>& processors)
    : kernels_(kernels), pool_(threads, processors), name_(std::string("cpu ") + kernels.name) {}

std::string CpuDevice::description() const { return std::to_string(pool_.size()) + " threads"; }

int64_t CpuDevice::available_memory() const { return available_host_memory(); }

std::byte* CpuDevice::allocate(size_t bytes) {
  auto* memory = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{Arena::kAlignment}));
  want_huge_pages(memory, bytes);
#ifdef NIBBLE_CHECKS
  std::memset(memory, 0xFF, bytes);  // a NaN in fp32 and in bf16, -1 in integers
#endif
  return memory;
}

void CpuDevice::Free::operator()(std::byte* memory) const noexcept {
  ::operator delete (memory, std::align_val_t{Arena::kAlignment});
}

void CpuDevice::release(std::byte* memory) noexcept { Free{}(memory); }

void CpuDevice::take_workspaces() { workspaces(kUsualWorkspace); }

CpuDevice::Workspaces CpuDevice::workspaces(size_t bytes) {
  const size_t wanted = bytes * static_cast<size_t>(pool_.size());
  if (wanted > workspace_bytes_) {
    workspaces_.reset();
    workspace_bytes_ = 0;
    workspaces_.reset(allocate(wanted));
    workspace_bytes_ = wanted;
  }
  return {workspaces_.get(), bytes};
}

void CpuDevice::copy_in(std::byte* to, std::span<const std::byte> host) {
  if (!host.empty()) std::memcpy(to, host.data(), host.size());
}

void CpuDevice::copy_out(std::span<std::byte> host, const std::byte* from) {
  if (!host.empty()) std::memcpy(host.data(), from, host.size());
}

void CpuDevice::fill_zero(std::byte* memory, size_t bytes) { std::memset(memory, 0, bytes); }

Device::Peaks CpuDevice::measure_peaks() { return {.copy_gb_per_s = measure_read_bandwidth(pool_.size()).gb_per_s}; }

}  // namespace nibble::cpu
