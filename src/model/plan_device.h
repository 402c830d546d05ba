// A device that does nothing: a forward pass on it leaves only its footprint in the arena, which is how steps are
// sized.
#pragma once

#include "base/device.h"

namespace nibble::model {

class PlanDevice final : public Device {
 public:
  explicit PlanDevice(const Device& planned_for) : planned_for_(planned_for) {}

  std::string_view name() const override { return "plan"; }
  const ops::KernelTable& kernels() const override;
  int concurrency() const override { return planned_for_.concurrency(); }
  std::byte* allocate(size_t) override { return address(); }
  void release(std::byte*) noexcept override {}
  const std::byte* adopt(std::span<const std::byte>) override { return address(); }
  void copy_in(std::byte*, std::span<const std::byte>) override {}
  void copy_out(std::span<std::byte>, const std::byte*) override {}
  void fill_zero(std::byte*, size_t) override {}
  void synchronize() override {}

  // Somewhere that is not null; nothing ever reads it.
  static std::byte* address() { return reinterpret_cast<std::byte*>(uintptr_t{1} << 40); }

 private:
  const Device& planned_for_;
};

}  // namespace nibble::model
