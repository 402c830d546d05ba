// The CPU as a device: host memory, a thread pool, and the kernels of one instruction set.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/device.h"
#include "base/thread_pool.h"
#include "cpu/expert_pages.h"

namespace nibble::cpu {

class CpuDevice final : public Device {
 public:
  // `processors`: as ThreadPool takes them.
  CpuDevice(const ops::KernelTable& kernels, int threads, const std::vector<int>& processors = {});

  std::string_view name() const override { return name_; }
  const ops::KernelTable& kernels() const override { return kernels_; }
  int concurrency() const override { return pool_.size(); }
  std::string description() const override;
  int64_t available_memory() const override;
  bool shares_host_memory() const override { return true; }

  std::byte* allocate(size_t bytes) override;  // poisoned where NIBBLE_CHECKS is on
  void release(std::byte* memory) noexcept override;
  void take_workspaces() override;
  const std::byte* adopt(std::span<const std::byte> host) override { return host.data(); }

  void copy_in(std::byte* to, std::span<const std::byte> host) override;
  void copy_out(std::span<std::byte> host, const std::byte* from) override;
  void fill_zero(std::byte* memory, size_t bytes) override;
  void synchronize() override {}
  Peaks measure_peaks() override;

  // Memory of each worker's own: what an op leaves there lasts until the next one asks.
  class Workspaces {
   public:
    [[gnu::always_inline]] Workspaces(std::byte* memory, size_t bytes) : memory_(memory), bytes_(bytes) {}
    [[gnu::always_inline]] std::byte* operator[](int worker) const {
      return memory_ + static_cast<size_t>(worker) * bytes_;
    }

   private:
    std::byte* memory_;
    size_t bytes_;
  };
  // `bytes`, a multiple of 64, for each; throws std::bad_alloc. Once taken, grows for wider rows than K3's only.
  Workspaces workspaces(size_t bytes);

  [[gnu::always_inline]] ThreadPool& pool() { return pool_; }
  [[gnu::always_inline]] ExpertPages& expert_pages() { return expert_pages_; }

 private:
  const ops::KernelTable& kernels_;
  ThreadPool pool_;
  ExpertPages expert_pages_;
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  std::unique_ptr<std::byte[], Free> workspaces_;
  size_t workspace_bytes_ = 0;
  std::string name_;
};

}  // namespace nibble::cpu
