// A device: its memory, its stream, and the kernels it offers.
//
// Everything that the model does is enqueued on one stream per device: ops, copies in, copies out. Work runs in that
// order, but no sooner than it likes: the host may read a result only after synchronize(). Device memory is opaque to
// the host, so above the kernels nobody dereferences a view. The CPU backend happens to run each op before enqueue
// returns; nothing may rely on it, and a test device that runs everything later, on another thread, in memory the host
// cannot touch, holds us to that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace nibble {

namespace ops {
struct KernelTable;
}

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string_view name() const = 0;            // "cpu avx2"
  virtual const ops::KernelTable& kernels() const = 0;  // one entry an op
  virtual int concurrency() const = 0;                  // how many slices of scratch an op may use at once
  virtual std::string description() const = 0;          // for people: what it is and how much of it
  // Bytes that allocate() could still give, roughly; the host's where memory is shared.
  virtual int64_t available_memory() const = 0;
  // Whether adopt() costs no memory: weights then stay where the file is mapped.
  virtual bool shares_host_memory() const = 0;

  // 64-byte aligned device memory; contents are undefined. Throws std::bad_alloc.
  virtual std::byte* allocate(size_t bytes) = 0;
  virtual void release(std::byte* memory) noexcept = 0;
  // Takes what kernels use beside their ops' scratch, so that no step has to. Throws std::bad_alloc.
  virtual void take_workspaces() {}
  // A device address for host bytes that outlive the device and never change (mapped weights). The CPU returns the
  // bytes themselves: weights are never copied there.
  virtual const std::byte* adopt(std::span<const std::byte> host) = 0;

  // Enqueued. Host memory named here must stay as it is until synchronize().
  virtual void copy_in(std::byte* to, std::span<const std::byte> host) = 0;
  virtual void copy_out(std::span<std::byte> host, const std::byte* from) = 0;
  virtual void fill_zero(std::byte* memory, size_t bytes) = 0;
  // The ceilings of this device, measured for some 100 ms: a large copy, bytes read and written counted (of a CPU:
  // reads), and bf16 products where it has units for them, else 0.
  struct Peaks {
    double copy_gb_per_s = 0.0, matrix_tflops = 0.0;
  };
  virtual Peaks measure_peaks() = 0;

  // Waits until all that was enqueued has run; a device error surfaces here.
  virtual void synchronize() = 0;

  // Ops that were enqueued once, to be enqueued again at little cost: the same kernels with the same arguments, so only
  // what lies at their addresses may differ.
  class Recording {
   public:
    virtual ~Recording() = default;
    virtual void enqueue() = 0;
  };
  // Whether this device gains from recordings.
  virtual bool records() const { return false; }
  // Takes down the ops that `enqueue` enqueues, and runs none of them. What they need must be there: each has run once
  // before. Only where records().
  virtual std::unique_ptr<Recording> record(const std::function<void()>& enqueue);
};

// Owned device memory.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(Device& device, size_t bytes)
      : device_(&device), data_(bytes == 0 ? nullptr : device.allocate(bytes)), size_(bytes) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~DeviceBuffer() {
    if (data_ != nullptr) device_->release(data_);
  }

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace nibble
