// An NVIDIA GPU as a device: its memory, one stream, and the kernels of its architecture.
//
// Nothing above src/cuda/ sees a type of CUDA: this header names none, so that backend/ can include it.
#pragma once

#include <memory>
#include <string>

#include "base/device.h"
#include "cuda/launch.h"

struct CUstream_st;

namespace nibble::cuda {

class Uploader;
struct Architecture;

// Whether there is a driver that shows device `index` and its architecture is certified (and this one, if one is
// named).
bool usable(int index, const Architecture* wanted = nullptr);

class CudaDevice final : public Device {
 public:
  // Throws Refusal: no driver, no such device, an architecture that is not certified.
  explicit CudaDevice(int index, const ops::KernelTable* kernels = nullptr);  // others than its own: for tests
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  std::string_view name() const override { return name_; }
  const ops::KernelTable& kernels() const override { return *kernels_; }
  int concurrency() const override { return processors_; }
  std::string description() const override { return description_; }
  int64_t available_memory() const override;
  bool shares_host_memory() const override { return false; }

  std::byte* allocate(size_t bytes) override;  // 256-byte aligned; poisoned where NIBBLE_CHECKS is on
  void release(std::byte* memory) noexcept override;
  const std::byte* adopt(std::span<const std::byte> host) override;  // copied through pinned memory, while it runs on

  void copy_in(std::byte* to, std::span<const std::byte> host) override;
  void copy_out(std::span<std::byte> host, const std::byte* from) override;
  void fill_zero(std::byte* memory, size_t bytes) override;
  void synchronize() override;
  Peaks measure_peaks() override;
  bool records() const override { return true; }
  std::unique_ptr<Recording> record(const std::function<void()>& enqueue) override;  // a CUDA graph

  // For kernels.
  CUstream_st* stream() const { return stream_; }
  const LaunchLimits& limits() const { return limits_; }
  // Makes this the calling thread's current device.
  void make_current() const;
  // Keeps the first error, with what was being done; synchronize() throws it. `status` is a cudaError_t.
  void note(int status, const char* doing);

 private:
  int index_ = 0, processors_ = 1;
  const ops::KernelTable* kernels_;
  std::string name_, description_, error_;
  LaunchLimits limits_;
  CUstream_st* stream_ = nullptr;
  std::unique_ptr<Uploader> uploader_;
};

}  // namespace nibble::cuda
