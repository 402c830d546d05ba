#include "cuda/cuda_device.h"

#include <cuda_runtime.h>

#include <new>
#include <stdexcept>

#include "base/error.h"
#include "cuda/architecture.h"
#include "cuda/kernels/kernels.h"
#include "cuda/peaks.h"
#include "cuda/upload.h"

namespace nibble::cuda {
namespace {

Refusal no_device(int index, const std::string& seen) {
  return Refusal({.what = "device cuda:" + std::to_string(index),
                  .seen = seen,
                  .rule = "cuda needs an NVIDIA driver and a GPU that it shows",
                  .fix = "a machine with one, or device cpu"});
}

void check_index(int index) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver) throw no_device(index, "no driver, or one older than this build needs");
  if (status != cudaSuccess && status != cudaErrorNoDevice) throw no_device(index, cudaGetErrorString(status));
  if (index >= count) throw no_device(index, "the driver shows " + std::to_string(count) + " devices");
}

class Graph final : public Device::Recording {
 public:
  Graph(CudaDevice& device, cudaGraphExec_t graph) : device_(device), graph_(graph) {}
  ~Graph() override { cudaGraphExecDestroy(graph_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void enqueue() override {
    device_.make_current();
    device_.note(cudaGraphLaunch(graph_, device_.stream()), "graph");
  }

 private:
  CudaDevice& device_;
  cudaGraphExec_t graph_;
};

std::string mebibytes(size_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

bool usable(int index, const Architecture* wanted) {
  int count = 0, major = 0, minor = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || index >= count) return false;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index);
  for (const Architecture& a : architectures()) {
    if (a.major == major && a.minor == minor) return a.certified && (wanted == nullptr || wanted == &a);
  }
  return false;
}

CudaDevice::CudaDevice(int index, const ops::KernelTable* kernels)
    : index_(index), kernels_(kernels == nullptr ? &kKernels : kernels) {
  check_index(index);
  cudaDeviceProp properties;
  if (const cudaError_t status = cudaGetDeviceProperties(&properties, index); status != cudaSuccess) {
    throw no_device(index, cudaGetErrorString(status));
  }
  const Architecture& architecture =
      require_certified("cuda:" + std::to_string(index), properties.name, properties.major, properties.minor);
  name_ = "cuda " + std::string(architecture.name);
  description_ = std::string(properties.name) + ", " + std::to_string(properties.multiProcessorCount) +
                 " multiprocessors, " + mebibytes(properties.totalGlobalMem) + ", cuda:" + std::to_string(index);
  processors_ = properties.multiProcessorCount;
  limits_.shared = static_cast<int64_t>(properties.sharedMemPerBlockOptin);
  make_current();
  if (const cudaError_t status = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking); status != cudaSuccess) {
    throw no_device(index, cudaGetErrorString(status));
  }
  uploader_ = std::make_unique<Uploader>(*this);
}

CudaDevice::~CudaDevice() {
  make_current();
  cudaStreamSynchronize(stream_);
  uploader_.reset();
  cudaStreamDestroy(stream_);
}

void CudaDevice::make_current() const {
  thread_local int current = -1;
  if (current == index_) return;
  cudaSetDevice(index_);
  current = index_;
}

int64_t CudaDevice::available_memory() const {
  make_current();
  size_t available = 0, total = 0;
  return cudaMemGetInfo(&available, &total) == cudaSuccess ? static_cast<int64_t>(available) : 0;
}

void CudaDevice::note(int status, const char* doing) {
  if (status == cudaSuccess || !error_.empty()) return;
  error_ = name_ + ": " + doing + ": " + cudaGetErrorString(static_cast<cudaError_t>(status));
}

std::byte* CudaDevice::allocate(size_t bytes) {
  make_current();
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes == 0 ? 1 : bytes) != cudaSuccess) {
    cudaGetLastError();  // which would show in the next launch
    throw std::bad_alloc();
  }
#ifdef NIBBLE_CHECKS
  note(cudaMemsetAsync(memory, 0xFF, bytes, stream_), "poison");
#endif
  return static_cast<std::byte*>(memory);
}

void CudaDevice::release(std::byte* memory) noexcept {
  make_current();
  cudaStreamSynchronize(stream_);  // work that uses it may be under way
  cudaFree(memory);
}

const std::byte* CudaDevice::adopt(std::span<const std::byte> host) {
  make_current();
  return uploader_->add(host);
}

void CudaDevice::copy_in(std::byte* to, std::span<const std::byte> host) {
  make_current();
  if (!host.empty()) note(cudaMemcpyAsync(to, host.data(), host.size(), cudaMemcpyHostToDevice, stream_), "copy in");
}

void CudaDevice::copy_out(std::span<std::byte> host, const std::byte* from) {
  make_current();
  if (!host.empty()) note(cudaMemcpyAsync(host.data(), from, host.size(), cudaMemcpyDeviceToHost, stream_), "copy out");
}

void CudaDevice::fill_zero(std::byte* memory, size_t bytes) {
  make_current();
  if (bytes != 0) note(cudaMemsetAsync(memory, 0, bytes, stream_), "fill");
}

void CudaDevice::synchronize() {
  make_current();
  note(cudaStreamSynchronize(stream_), "a kernel or a copy");
  if (!error_.empty()) throw std::runtime_error(error_);  // it stays: after it the device answers nothing else
}

Device::Peaks CudaDevice::measure_peaks() { return cuda::measure_peaks(*this); }

std::unique_ptr<Device::Recording> CudaDevice::record(const std::function<void()>& enqueue) {
  make_current();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  note(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "record");
  enqueue();
  note(cudaStreamEndCapture(stream_, &graph), "record");
  note(cudaGraphInstantiate(&executable, graph, 0), "record");
  cudaGraphDestroy(graph);
  if (!error_.empty()) throw std::runtime_error(error_);
  return std::make_unique<Graph>(*this, executable);
}

}  // namespace nibble::cuda
