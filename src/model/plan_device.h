// A device that does nothing: a forward pass on it leaves only its footprint in the arena, which is how steps are
// sized.
#pragma once

#include <cstdint>
#include <utility>

#include "base/device.h"

namespace nibble::model {

class PlanDevice final : public Device {
 public:
  explicit PlanDevice(const Device& planned_for) : planned_for_(planned_for) {}

  std::string_view name() const override { return "plan"; }
  const ops::KernelTable& kernels() const override;
  int concurrency() const override { return planned_for_.concurrency(); }
  // Each allocation is apart from all others, as ops demand of their arguments.
  std::byte* allocate(size_t bytes) override { return std::exchange(next_, next_ + (bytes + 63) / 64 * 64); }
  void release(std::byte*) noexcept override {}
  const std::byte* adopt(std::span<const std::byte> host) override { return allocate(host.size()); }
  void copy_in(std::byte*, std::span<const std::byte>) override {}
  void copy_out(std::span<std::byte>, const std::byte*) override {}
  void fill_zero(std::byte*, size_t) override {}
  void synchronize() override {}

  // Where an arena may begin: nothing ever reads it, and no allocation is near.
  static std::byte* arena() { return reinterpret_cast<std::byte*>(uintptr_t{1} << 40); }

 private:
  const Device& planned_for_;
  std::byte* next_ = reinterpret_cast<std::byte*>(uintptr_t{1} << 60);
};

}  // namespace nibble::model
