// Weights on their way up: from a mapped file through two pinned buffers, one filled while the other is copied.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/device.h"

struct CUevent_st;

namespace nibble::cuda {

class CudaDevice;

class Uploader {
 public:
  explicit Uploader(CudaDevice& device) : device_(device) {}
  ~Uploader();
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  // Device memory for these bytes, which live as long as this does. The copy is enqueued; `host` has been read when
  // this returns. Throws std::bad_alloc.
  const std::byte* add(std::span<const std::byte> host);

 private:
  static constexpr size_t kBuffer = size_t{8} << 20, kSlab = size_t{64} << 20, kAlignment = 256;
  struct Buffer {
    std::byte* memory = nullptr;  // pinned
    CUevent_st* copied = nullptr;
  };

  std::byte* place(size_t bytes);
  void make_buffers();

  CudaDevice& device_;
  std::vector<DeviceBuffer> slabs_;  // half a million tensors are no half a million allocations
  size_t used_ = 0;                  // of the last slab
  Buffer buffers_[2];
  int next_ = 0;
};

}  // namespace nibble::cuda
