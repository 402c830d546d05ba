// Negative controls on the GPU: faults planted between the model and its kernels. Each must break the goldens by far
// more than their budget, or the check could not have caught it.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <utility>

#include "cuda/cuda_device.h"
#include "cuda/kernels/kernels.h"
#include "ops/ops.h"
#include "testing/golden.h"
#include "testing/model_rig.h"

namespace nibble::cuda {
namespace {

using testing::Golden;
using testing::ModelRig;

constexpr float kBudget = 2e-3f, kVisible = 0.02f;

// The largest error of the last logits of the second prompt, fed in two chunks, with these kernels.
float error_with(const ops::KernelTable& kernels) {
  const Golden golden;
  const auto& prompt = golden.prompts("mxfp4")[1];
  ModelRig rig(std::make_unique<CudaDevice>(0, &kernels), Golden::model_path("mxfp4"), DType::kF32);
  const std::vector<float> got = rig.logits(prompt.tokens, 40);
  const auto want = golden.floats(prompt.key + ".last_logits");
  float worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const float error = std::fabs(got[got.size() - want.size() + i] - want[i]);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

TEST(GpuControls, NothingPlanted) { EXPECT_LE(error_with(kKernels), kBudget); }

TEST(GpuControls, GateAndUpSwappedInTheExperts) {
  ops::KernelTable bad = kKernels;
  bad.moe_experts = [](Device& device, const ops::MoeExperts& a) {
    ops::MoeExperts swapped = a;
    std::swap(swapped.w1, swapped.w3);
    kKernels.moe_experts(device, swapped);
  };
  EXPECT_GT(error_with(bad), kVisible);
}

TEST(GpuControls, GateAndUpSwappedInTheMlp) {
  ops::KernelTable bad = kKernels;
  bad.situ = [](Device& device, const ops::Situ& a) {
    ops::Situ swapped = a;
    std::swap(swapped.gate, swapped.up);
    kKernels.situ(device, swapped);
  };
  EXPECT_GT(error_with(bad), kVisible);
}

TEST(GpuControls, NoBiasInTheChoiceOfExperts) {
  ops::KernelTable bad = kKernels;
  bad.moe_route = [](Device& device, const ops::MoeRoute& a) {
    ops::MoeRoute unbiased = a;
    unbiased.bias = {a.logits.data, a.bias.size};  // another row's numbers in its place
    kKernels.moe_route(device, unbiased);
  };
  EXPECT_GT(error_with(bad), kVisible);
}

TEST(GpuControls, StateForgottenBetweenSteps) {
  ops::KernelTable bad = kKernels;
  bad.kda_rows = [](Device& device, const ops::KdaRows& a) {
    device.fill_zero(reinterpret_cast<std::byte*>(a.state.data), static_cast<size_t>(a.state.size) * sizeof(float));
    kKernels.kda_rows(device, a);
  };
  EXPECT_GT(error_with(bad), kVisible);
}

TEST(GpuControls, WindowForgottenBetweenSteps) {
  ops::KernelTable bad = kKernels;
  bad.causal_conv_silu = [](Device& device, const ops::CausalConvSilu& a) {
    const Rows& w = a.window;
    device.fill_zero(static_cast<std::byte*>(w.data), static_cast<size_t>(w.rows * w.stride * bytes_of(w.dtype)));
    kKernels.causal_conv_silu(device, a);
  };
  EXPECT_GT(error_with(bad), kVisible);
}

TEST(GpuControls, QueriesAndKeysOfKdaSwapped) {
  ops::KernelTable bad = kKernels;
  bad.kda_rows = [](Device& device, const ops::KdaRows& a) {
    ops::KdaRows swapped = a;
    std::swap(swapped.q, swapped.k);
    kKernels.kda_rows(device, swapped);
  };
  EXPECT_GT(error_with(bad), kVisible);
}

TEST(GpuControls, ScoresOfMlaNotScaled) {
  ops::KernelTable bad = kKernels;
  bad.mla_attention = [](Device& device, const ops::MlaAttention& a) {
    ops::MlaAttention unscaled = a;
    unscaled.scale = 1.0f;
    kKernels.mla_attention(device, unscaled);
  };
  EXPECT_GT(error_with(bad), kVisible);
}

TEST(GpuControls, AnErrorOfTheDeviceSurfacesWhereTheHostWaits) {
  CudaDevice device(0);
  device.note(1, "planted");  // cudaErrorInvalidValue
  EXPECT_THROW(device.synchronize(), std::runtime_error);
}

}  // namespace
}  // namespace nibble::cuda
