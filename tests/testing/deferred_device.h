// A device that keeps the host honest: nothing runs before synchronize(), everything runs on another thread, and the
// host cannot touch its memory in between (the pages are unmapped for it). Kernels are the CPU's, so a model must give
// the CPU's bits here, unchanged.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cpu/cpu_device.h"
#include "ops/kernel_table.h"

namespace nibble::testing {

class DeferredDevice final : public Device {
 public:
  explicit DeferredDevice(const ops::KernelTable& kernels);
  ~DeferredDevice() override;

  std::string_view name() const override { return "deferred"; }
  const ops::KernelTable& kernels() const override { return table_; }
  int concurrency() const override { return inner_.concurrency(); }
  std::string description() const override { return "runs later"; }
  int64_t available_memory() const override { return available_; }
  bool shares_host_memory() const override { return false; }
  // What available_memory() says from now on.
  void set_available_memory(int64_t bytes) { available_ = bytes; }
  std::byte* allocate(size_t bytes) override;  // poisoned, inaccessible to the host
  void release(std::byte* memory) noexcept override;
  const std::byte* adopt(std::span<const std::byte> host) override;  // copies
  void copy_in(std::byte* to, std::span<const std::byte> host) override;
  void copy_out(std::span<std::byte> host, const std::byte* from) override;
  void fill_zero(std::byte* memory, size_t bytes) override;
  void synchronize() override;
  Peaks measure_peaks() override { return inner_.measure_peaks(); }
  bool records() const override { return true; }
  std::unique_ptr<Recording> record(const std::function<void()>& enqueue) override;

  void enqueue(std::function<void()> work) { queue_.push_back(std::move(work)); }
  cpu::CpuDevice& inner() { return inner_; }
  // Bytes that were asked for since construction, adopted ones too.
  int64_t allocated() const { return allocated_; }
  // How much work has been enqueued since construction.
  int64_t enqueued() const { return enqueued_; }

 private:
  std::byte* map(size_t bytes);
  void protect(int protection);

  cpu::CpuDevice inner_;
  ops::KernelTable table_;
  std::map<std::byte*, size_t> mappings_;  // start -> mapped bytes
  std::vector<std::byte*> slabs_;          // of adopted bytes: a mapping each would make protect() slow
  size_t slab_used_ = 0;
  std::vector<std::function<void()>> queue_;
  int64_t enqueued_ = 0, allocated_ = 0, available_ = int64_t{1} << 40;
};

}  // namespace nibble::testing
