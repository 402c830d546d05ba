#include "cuda/upload.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "cuda/cuda_device.h"

namespace nibble::cuda {

Uploader::~Uploader() {
  for (const Buffer& buffer : buffers_) {
    if (buffer.copied != nullptr) cudaEventDestroy(buffer.copied);
    if (buffer.memory != nullptr) cudaFreeHost(buffer.memory);
  }
}

std::byte* Uploader::place(size_t bytes) {
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (slabs_.empty() || rounded > slabs_.back().size() - used_) {
    slabs_.emplace_back(device_, std::max(rounded, kSlab));
    used_ = 0;
  }
  std::byte* out = slabs_.back().data() + used_;
  used_ += rounded;
  return out;
}

void Uploader::make_buffers() {
  if (buffers_[0].memory != nullptr) return;
  for (Buffer& buffer : buffers_) {
    void* memory = nullptr;
    if (cudaMallocHost(&memory, kBuffer) != cudaSuccess) throw std::bad_alloc();
    buffer.memory = static_cast<std::byte*>(memory);
    device_.note(cudaEventCreateWithFlags(&buffer.copied, cudaEventDisableTiming), "upload");
  }
}

const std::byte* Uploader::add(std::span<const std::byte> host) {
  make_buffers();
  std::byte* const memory = place(host.size());
  for (size_t at = 0; at < host.size(); at += kBuffer) {
    const std::span<const std::byte> part = host.subspan(at, std::min(kBuffer, host.size() - at));
    const Buffer& buffer = buffers_[next_];
    next_ = 1 - next_;
    device_.note(cudaEventSynchronize(buffer.copied), "upload");
    std::memcpy(buffer.memory, part.data(), part.size());
    device_.note(cudaMemcpyAsync(memory + at, buffer.memory, part.size(), cudaMemcpyHostToDevice, device_.stream()),
                 "upload");
    device_.note(cudaEventRecord(buffer.copied, device_.stream()), "upload");
  }
  return memory;
}

}  // namespace nibble::cuda
