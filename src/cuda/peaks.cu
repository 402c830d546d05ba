// Ceilings, measured: events around copies and around a kernel that only multiplies.
#include <cuda_runtime.h>

#include <algorithm>

#include "cuda/cuda_device.h"
#include "cuda/kernels/kernel.cuh"
#include "cuda/peaks.h"

namespace nibble::cuda {
namespace {

constexpr int kThreads = 256, kRounds = 4096, kDepth = 8;  // two warpgroups a block
constexpr double kFlops = 2.0 * 64 * 128 * 16;             // of one instruction

// A shared memory tile as wgmma takes it, in 8 x 8 blocks of 128 bytes: two along K, then the next eight rows.
__device__ uint64_t tile(const void* memory) {
  const auto address = static_cast<uint64_t>(__cvta_generic_to_shared(memory));
  return (address & 0x3FFFF) >> 4 | uint64_t{128 >> 4} << 16 | uint64_t{256 >> 4} << 32;
}

__device__ void multiply(float (&d)[64], uint64_t a, uint64_t b) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
        "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]),
        "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]),
        "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]),
        "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "l"(a), "l"(b));
#endif
}

__global__ void __launch_bounds__(kThreads) matrix_kernel(float* out) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  __shared__ alignas(1024) uint16_t tiles[2][(64 + 128) * 16];
  for (int i = threadIdx.x; i < 2 * (64 + 128) * 16; i += kThreads) {  // in +-[1, 2), of either sign
    const uint32_t random = (static_cast<uint32_t>(i) + blockIdx.x * 12289u) * 2654435761u;
    (&tiles[0][0])[i] = static_cast<uint16_t>(0x3F80u | (random >> 9 & 0x7Fu) | (random >> 16 & 0x8000u));
  }
  asm volatile("fence.proxy.async.shared::cta;");
  __syncthreads();
  const int group = static_cast<int>(threadIdx.x) / 128;
  const uint64_t a = tile(&tiles[group][0]), b = tile(&tiles[group][64 * 16]);
  float d[64] = {};
  for (int round = 0; round < kRounds; ++round) {
    asm volatile("wgmma.fence.sync.aligned;");
#pragma unroll
    for (int i = 0; i < kDepth; ++i) multiply(d, a, b);
    asm volatile("wgmma.commit_group.sync.aligned;");
    asm volatile("wgmma.wait_group.sync.aligned 0;");
  }
  float sum = 0;
  for (int i = 0; i < 64; ++i) sum += d[i];
  out[blockIdx.x * kThreads + threadIdx.x] = sum;
#endif
}

// The shortest of a few runs, in seconds.
template <class Run>
double seconds(CudaDevice& device, const Run& run) {
  cudaEvent_t begin, end;
  device.note(cudaEventCreate(&begin), "peaks");
  device.note(cudaEventCreate(&end), "peaks");
  double best = 1e9;
  for (int i = 0; i < 6; ++i) {  // the first warms up
    device.note(cudaEventRecord(begin, device.stream()), "peaks");
    run();
    device.note(cudaEventRecord(end, device.stream()), "peaks");
    device.synchronize();
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, begin, end);
    if (i > 0) best = std::min(best, static_cast<double>(milliseconds) * 1e-3);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return best;
}

}  // namespace

Device::Peaks measure_peaks(CudaDevice& device) {
  constexpr size_t kBytes = size_t{512} << 20;
  const DeviceBuffer from(device, kBytes), to(device, kBytes);
  device.fill_zero(from.data(), kBytes);
  const double copy = seconds(device, [&] {
    device.note(cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice, device.stream()), "peaks");
  });
  const int64_t blocks = 2 * device.concurrency();
  const double product = seconds(
      device, [&] { launch(device, "peaks", matrix_kernel, {.x = blocks, .threads = kThreads}, to.as<float>()); });
  const double flops = kFlops * kDepth * kRounds * 2 * static_cast<double>(blocks);
  return {.copy_gb_per_s = 2.0 * static_cast<double>(kBytes) / copy / 1e9, .matrix_tflops = flops / product / 1e12};
}

}  // namespace nibble::cuda
