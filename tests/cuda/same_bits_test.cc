// The GPU adds in the CPU's order and rounds where it rounds, so a whole forward pass gives the CPU's bits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "cpu/cpu_device.h"
#include "cpu/isa.h"
#include "testing/golden.h"
#include "testing/model_rig.h"
#include "testing/test_device.h"

namespace nibble {
namespace {

using testing::Golden;
using testing::ModelRig;

struct Variant {
  const char *name, *format;
  DType dtype;
  ops::MlaForm form;
};
void PrintTo(const Variant& v, std::ostream* out) { *out << v.name; }

// The GPU's order of addition is that of the CPU's fp32 kernels; those on bf16 pairs have one of their own.
std::unique_ptr<Device> fp32_cpu() {
  const ops::KernelTable* kernels = nullptr;
  for (const cpu::Isa& isa : cpu::instruction_sets()) {
    if (isa.available && isa.name != "avx512bf16" && isa.name != "amx") kernels = isa.kernels;
  }
  return std::make_unique<cpu::CpuDevice>(*kernels, 1);
}

class SameBits : public ::testing::TestWithParam<Variant> {};

TEST_P(SameBits, OnBothDevices) {
  const Variant& v = GetParam();
  const Golden golden;
  ModelRig here(fp32_cpu(), Golden::model_path(v.format), v.dtype, v.form);
  ModelRig there(testing::open_device_under_test(1), Golden::model_path(v.format), v.dtype, v.form);
  for (size_t i = 0; i < 3; ++i) {
    const std::vector<int32_t>& tokens = golden.prompts(v.format)[i].tokens;
    const std::vector<float> want = here.logits(tokens), got = there.logits(tokens, 40);
    ASSERT_EQ(got.size(), want.size());
    float worst = 0;
    for (size_t k = 0; k < got.size(); ++k) {
      const float error = std::fabs(got[k] - want[k]);
      worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    }
    EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0)
        << "prompt " << i << ", off by " << worst;
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, SameBits,
                         ::testing::Values(Variant{"mxfp4_exact", "mxfp4", DType::kF32, ops::MlaForm::kAbsorbed},
                                           Variant{"nvfp4_bf16", "nvfp4", DType::kBf16, ops::MlaForm::kAbsorbed},
                                           Variant{"mxfp4_expanded", "mxfp4", DType::kBf16, ops::MlaForm::kExpanded}),
                         [](const auto& variant) { return variant.param.name; });

}  // namespace
}  // namespace nibble
