// Negative controls on the GPU.
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>

#include "cuda/cuda_device.h"
#include "cuda/kernels/kernels.h"
#include "testing/planted.h"

namespace nibble::cuda {
namespace {

using testing::golden_error;

TEST(GpuControls, NothingPlanted) { EXPECT_LE(golden_error(std::make_unique<CudaDevice>(0)), testing::kGoldenBudget); }

TEST(GpuControls, EveryPlantedFaultShows) {
  for (const testing::PlantedFault& fault : testing::planted_faults()) {
    const ops::KernelTable bad = testing::with_fault(kKernels, fault);
    EXPECT_GT(golden_error(std::make_unique<CudaDevice>(0, &bad)), testing::kVisibleError) << fault.name;
  }
}

TEST(GpuControls, AnErrorOfTheDeviceSurfacesWhereTheHostWaits) {
  CudaDevice device(0);
  device.note(1, "planted");  // cudaErrorInvalidValue
  EXPECT_THROW(device.synchronize(), std::runtime_error);
}

}  // namespace
}  // namespace nibble::cuda
