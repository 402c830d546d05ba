// The published model's figures, to the byte where they are known to the byte (docs/performance.md).
#include "plan/footprint.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "plan/configs.h"

namespace nibble::plan {
namespace {

using checkpoint::ModelPart;

const Bytes& part(const Footprint& f, ModelPart p) { return f.parts[static_cast<size_t>(p)]; }
double gb(int64_t bytes) { return static_cast<double>(bytes) / 1e9; }

TEST(Footprint, OfKimiK3) {
  const Footprint f = footprint(config_of("kimi-k3"), 1);
  EXPECT_EQ(f.expert_format, "mxfp4");
  EXPECT_EQ(f.one_expert, 17'547'264);
  EXPECT_EQ(part(f, ModelPart::kRoutedExperts).read, int64_t{92} * 16 * 17'547'264);
  EXPECT_NEAR(gb(part(f, ModelPart::kRoutedExperts).read), 25.83, 0.005);
  EXPECT_EQ(part(f, ModelPart::kKda).read, int64_t{69} * 887'800'832);
  EXPECT_EQ(part(f, ModelPart::kMla).read, int64_t{24} * 464'392'192);
  EXPECT_EQ(
      part(f, ModelPart::kRouter).read + part(f, ModelPart::kLatent).read + part(f, ModelPart::kSharedExperts).read,
      int64_t{92} * 379'857'408);
  EXPECT_EQ(part(f, ModelPart::kHead).read, int64_t{163840} * 7168 * 2);
  EXPECT_NEAR(gb(part(f, ModelPart::kHead).read + part(f, ModelPart::kDenseMlp).read), 3.80, 0.005);
  EXPECT_EQ(part(f, ModelPart::kEmbedding).read, 7168 * 2);
  EXPECT_NEAR(gb(f.total.read), 136.99, 0.015);
  EXPECT_NEAR(gb(f.total.stored) / 1000, 1.56, 0.005);

  EXPECT_EQ(f.sequence.state + f.sequence.windows, 449'372'160);
  EXPECT_EQ(f.sequence.mla_per_token, 27'648);
  EXPECT_EQ(f.sequence.per_page, 64 * 27'648);
  EXPECT_NEAR(gb(f.sequence.state_traffic()), 0.87, 0.005);
  EXPECT_EQ(f.sequence.segment_traffic(), f.sequence.state * 17 / 16 + f.sequence.records / 2);
}

TEST(Footprint, ExpertFormats) {
  const Footprint mx = footprint(config_of("kimi-k3"), 1);
  const Footprint nv = footprint(config_of("kimi-k3", fp4::WeightFormat::kNvfp4), 1);
  EXPECT_EQ(nv.expert_format, "nvfp4");
  // 9 bytes for 16 weights in place of 17 for 32, and two scalars a matrix.
  EXPECT_EQ(nv.one_expert, mx.one_expert / 17 * 18 + 3 * 8);
  EXPECT_EQ(part(nv, ModelPart::kKda).stored, part(mx, ModelPart::kKda).stored);
}

// From a config alone it is what a checkpoint of that config holds.
TEST(Footprint, ConfigAndCheckpointAgree) {
  for (const auto format : {fp4::WeightFormat::kMxfp4, fp4::WeightFormat::kNvfp4}) {
    const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "nibble_plan_synth";
    std::filesystem::remove_all(folder);
    checkpoint::SynthOptions options;
    options.directory = folder;
    options.shape = "k3-tiny";
    options.format = format;
    options.sparse = true;
    const auto report = checkpoint::synthesize(options);
    for (const int64_t ranks : {1, 2}) {
      const auto opened = checkpoint::Checkpoint::open(folder);
      const Footprint a = footprint(opened.config(), ranks), b = footprint(opened, ranks);
      for (size_t i = 0; i < a.parts.size(); ++i) {
        EXPECT_EQ(a.parts[i].stored, b.parts[i].stored) << i;
        EXPECT_EQ(a.rank_parts[i].read, b.rank_parts[i].read) << i;
      }
      EXPECT_EQ(b.total.stored, report.bytes);
      EXPECT_EQ(a.expert_format, b.expert_format);
    }
    std::filesystem::remove_all(folder);
  }
}

TEST(Footprint, RanksShareWhatCanBeSplit) {
  const Footprint one = footprint(config_of("kimi-k3"), 1), many = footprint(config_of("kimi-k3"), 16);
  const auto rank = [&](ModelPart p) { return many.rank_parts[static_cast<size_t>(p)].stored; };
  EXPECT_EQ(rank(ModelPart::kRoutedExperts) * 16, part(one, ModelPart::kRoutedExperts).stored);
  EXPECT_EQ(rank(ModelPart::kHead) * 16, part(one, ModelPart::kHead).stored);
  EXPECT_EQ(rank(ModelPart::kEmbedding), part(one, ModelPart::kEmbedding).stored);
  EXPECT_EQ(rank(ModelPart::kLatent), part(one, ModelPart::kLatent).stored);
  EXPECT_GT(rank(ModelPart::kMla) * 16, part(one, ModelPart::kMla).stored);  // its down-projections are on each
  EXPECT_EQ(many.sequence.state * 16, one.sequence.state);
  EXPECT_EQ(many.sequence.mla_per_token, one.sequence.mla_per_token);
  EXPECT_EQ(many.total.stored, one.total.stored);
}

TEST(Footprint, RefusesRanksThatDoNotDivide) {
  for (const int64_t ranks : {0, 3, 5, 7, 64, 96}) {
    try {
      footprint(config_of("kimi-k3"), ranks);
      ADD_FAILURE() << ranks;
    } catch (const Refusal& refusal) {
      EXPECT_EQ(refusal.parts().fix, "--ranks 1, 2, 4, 8, 16, 32");
    }
  }
}

}  // namespace
}  // namespace nibble::plan
