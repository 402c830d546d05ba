// Projections rewritten on load (`--dense`): a little further from the published model, by no more than was measured,
// and still the same bits however rows are cut into steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "testing/golden.h"
#include "testing/model_rig.h"

namespace nibble {
namespace {

using fp4::WeightFormat;
using testing::Golden;
using testing::ModelRig;

constexpr double kFp8 = 1.5e-6, kMxfp8 = 7e-6, kMxfp4 = 2.9e-5;  // measured 3.9e-7, 1.8e-6 and 7.2e-6

ModelRig rig_of(WeightFormat dense) {
  return ModelRig(ModelRig::cpu(), Golden::model_path("mxfp4"), DType::kF32, ops::MlaForm::kAbsorbed, dense);
}

// The mean over rows of `width` logits of KL(softmax(want) || softmax(got)).
double mean_kl(const std::vector<float>& got, const std::vector<float>& want, size_t width) {
  const auto log_sum = [&](const float* row) {
    const float largest = *std::max_element(row, row + width);
    double sum = 0;
    for (size_t i = 0; i < width; ++i) sum += std::exp(static_cast<double>(row[i] - largest));
    return static_cast<double>(largest) + std::log(sum);
  };
  double kl = 0;
  for (size_t begin = 0; begin < want.size(); begin += width) {
    const double p_sum = log_sum(want.data() + begin), q_sum = log_sum(got.data() + begin);
    for (size_t i = begin; i < begin + width; ++i) {
      const double p = static_cast<double>(want[i]) - p_sum, q = static_cast<double>(got[i]) - q_sum;
      kl += std::exp(p) * (p - q);
    }
  }
  return kl * static_cast<double>(width) / static_cast<double>(want.size());
}

TEST(Dense, CostsWhatWasMeasured) {
  const Golden golden;
  const std::vector<int32_t> tokens = golden.prompts("mxfp4")[0].tokens;
  ModelRig published = rig_of(WeightFormat::kBf16);
  const auto width = static_cast<size_t>(published.model().config().vocab_size);
  const std::vector<float> want = published.logits(tokens);
  const double fp8 = mean_kl(rig_of(WeightFormat::kFp8Block).logits(tokens), want, width);
  const double mxfp8 = mean_kl(rig_of(WeightFormat::kMxfp8).logits(tokens), want, width);
  const double mxfp4 = mean_kl(rig_of(WeightFormat::kMxfp4).logits(tokens), want, width);
  std::printf("mean KL: fp8 %.2e, mxfp8 %.2e, mxfp4 %.2e\n", fp8, mxfp8, mxfp4);
  EXPECT_GT(fp8, 1e-7);  // something was rewritten
  EXPECT_LT(fp8, kFp8);
  EXPECT_GT(mxfp8, 1e-7);
  EXPECT_NE(mxfp8, fp8);
  EXPECT_LT(mxfp8, kMxfp8);
  EXPECT_GT(mxfp4, 4 * fp8);  // fewer bits cost more: the two are not mixed up
  EXPECT_LT(mxfp4, kMxfp4);
}

TEST(Dense, CuttingAPromptChangesNoBit) {
  const Golden golden;
  const std::vector<int32_t> tokens = golden.prompts("mxfp4")[0].tokens;
  for (const WeightFormat dense : {WeightFormat::kFp8Block, WeightFormat::kMxfp8, WeightFormat::kMxfp4}) {
    ModelRig rig = rig_of(dense);
    const std::vector<float> whole = rig.logits(tokens);
    EXPECT_TRUE(rig.logits(tokens, 5) == whole) << name_of(dense);
    EXPECT_TRUE(rig.logits(tokens, 1) == whole) << name_of(dense);
  }
}

}  // namespace
}  // namespace nibble
