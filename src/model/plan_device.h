// A device that does nothing: a forward pass on it leaves only its footprint in the arena, which is how steps are
// sized.
#pragma once

#include "base/arena.h"
#include "base/device.h"

namespace nibble::model {

class PlanDevice final : public Device {
 public:
  explicit PlanDevice(const Device& planned_for) : planned_for_(planned_for) {}

  std::string_view name() const override { return "plan"; }
  const ops::KernelTable& kernels() const override;
  int concurrency() const override { return planned_for_.concurrency(); }
  std::byte* allocate(size_t bytes) override { return take(bytes); }
  void release(std::byte*) noexcept override {}
  const std::byte* adopt(std::span<const std::byte> bytes) override { return take(bytes.size()); }
  void copy_in(std::byte*, std::span<const std::byte>) override {}
  void copy_out(std::span<std::byte>, const std::byte*) override {}
  void fill_zero(std::byte*, size_t) override {}
  void synchronize() override {}

  // Addresses that nothing else has, for ops check that their views are apart; nothing is ever behind them.
  std::byte* take(size_t bytes) {
    std::byte* out = reinterpret_cast<std::byte*>(next_);
    next_ += (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
    return out;
  }

 private:
  uintptr_t next_ = uintptr_t{1} << 56;  // no pointer of a 64-bit machine of today
  const Device& planned_for_;
};

}  // namespace nibble::model
