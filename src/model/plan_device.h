// A device that does nothing: a forward pass on it leaves only its footprint in the arena, which is how steps are
// sized.
#pragma once

#include "base/arena.h"
#include "base/device.h"
#include "ops/kernel_table.h"

namespace nibble::model {

class PlanDevice final : public Device {
 public:
  explicit PlanDevice(const Device& planned_for);

  std::string_view name() const override { return "plan"; }
  const ops::KernelTable& kernels() const override { return kernels_; }
  int concurrency() const override { return planned_for_.concurrency(); }
  std::string description() const override { return "nothing is there"; }
  int64_t available_memory() const override { return planned_for_.available_memory(); }
  bool shares_host_memory() const override { return planned_for_.shares_host_memory(); }
  std::byte* allocate(size_t bytes) override { return take(bytes); }
  void release(std::byte*) noexcept override {}
  const std::byte* adopt(std::span<const std::byte> bytes) override { return take(bytes.size()); }
  void copy_in(std::byte*, std::span<const std::byte>) override {}
  void copy_out(std::span<std::byte>, const std::byte*) override {}
  void fill_zero(std::byte*, size_t) override {}
  void synchronize() override {}
  Peaks measure_peaks() override { return {}; }

  // Bytes that were asked for, whoever asked.
  int64_t taken() const { return static_cast<int64_t>(next_ - kFirst); }

  // Addresses that nothing else has, for ops check that their views are apart; nothing is ever behind them.
  std::byte* take(size_t bytes) {
    std::byte* out = reinterpret_cast<std::byte*>(next_);
    next_ += (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
    return out;
  }

 private:
  static constexpr uintptr_t kFirst = uintptr_t{1} << 56;  // no pointer of a 64-bit machine of today
  uintptr_t next_ = kFirst;
  const Device& planned_for_;
  ops::KernelTable kernels_;
};

}  // namespace nibble::model
