#include "testing/planted.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "ops/ops.h"
#include "testing/golden.h"
#include "testing/model_rig.h"

namespace nibble::testing {
namespace {

const ops::KernelTable* good = nullptr;  // kernels are plain functions: this is how the planted ones find theirs

constexpr PlantedFault kFaults[] = {
    {"GateAndUpSwappedInTheExperts",
     [](ops::KernelTable& bad) {
       bad.moe_experts = [](Device& device, const ops::MoeExperts& a) {
         ops::MoeExperts swapped = a;
         std::swap(swapped.w1, swapped.w3);
         good->moe_experts(device, swapped);
       };
     }},
    {"GateAndUpSwappedInTheMlp",
     [](ops::KernelTable& bad) {
       bad.situ = [](Device& device, const ops::Situ& a) {
         ops::Situ swapped = a;
         std::swap(swapped.gate, swapped.up);
         good->situ(device, swapped);
       };
     }},
    {"NoBiasInTheChoiceOfExperts",
     [](ops::KernelTable& bad) {
       bad.moe_route = [](Device& device, const ops::MoeRoute& a) {
         ops::MoeRoute unbiased = a;
         unbiased.bias = {a.logits.data, a.bias.size};  // another row's numbers in its place
         good->moe_route(device, unbiased);
       };
     }},
    {"StateForgottenBetweenSteps",
     [](ops::KernelTable& bad) {
       bad.kda_rows = [](Device& device, const ops::KdaRows& a) {
         device.fill_zero(reinterpret_cast<std::byte*>(a.state.data),
                          static_cast<size_t>(a.state.size) * sizeof(float));
         good->kda_rows(device, a);
       };
     }},
    {"WindowForgottenBetweenSteps",
     [](ops::KernelTable& bad) {
       bad.causal_conv_silu = [](Device& device, const ops::CausalConvSilu& a) {
         const Rows& w = a.window;
         device.fill_zero(static_cast<std::byte*>(w.data), static_cast<size_t>(w.rows * w.stride * bytes_of(w.dtype)));
         good->causal_conv_silu(device, a);
       };
     }},
    {"QueriesAndKeysOfKdaSwapped",
     [](ops::KernelTable& bad) {
       bad.kda_rows = [](Device& device, const ops::KdaRows& a) {
         ops::KdaRows swapped = a;
         std::swap(swapped.q, swapped.k);
         good->kda_rows(device, swapped);
       };
     }},
    {"ScoresOfMlaNotScaled",
     [](ops::KernelTable& bad) {
       bad.mla_attention = [](Device& device, const ops::MlaAttention& a) {
         ops::MlaAttention unscaled = a;
         unscaled.scale = 1.0f;
         good->mla_attention(device, unscaled);
       };
     }},
};

}  // namespace

std::span<const PlantedFault> planted_faults() { return kFaults; }

ops::KernelTable with_fault(const ops::KernelTable& kernels, const PlantedFault& fault) {
  good = &kernels;
  ops::KernelTable bad = kernels;
  fault.plant(bad);
  return bad;
}

float golden_error(std::unique_ptr<Device> device, const std::string& format, const std::string& directory) {
  const Golden golden;
  const auto& prompt = golden.prompts(format)[1];
  ModelRig rig(std::move(device), directory.empty() ? Golden::model_path(format) : directory, DType::kF32);
  const std::vector<float> got = rig.logits(prompt.tokens, 40);
  const auto want = golden.floats(prompt.key + ".last_logits");
  float worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const float error = std::fabs(got[got.size() - want.size() + i] - want[i]);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

}  // namespace nibble::testing
