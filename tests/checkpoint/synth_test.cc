// Synthetic checkpoints: the full-size twin has the published counts, a filled one is complete and repeatable.
#include "checkpoint/synth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/bf16.h"
#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/files.h"

namespace nibble::checkpoint {
namespace {

namespace fs = std::filesystem;

SynthOptions tiny(const fs::path& directory) {
  SynthOptions options;
  options.directory = directory;
  options.shape = "k3-tiny";
  return options;
}

// 497,220 tensors and 1.56 TB, in files that occupy only their headers.
TEST(Synth, SparseTwinOfK3HasThePublishedCountsAndOpens) {
  const TemporaryDirectory scratch;
  SynthOptions options;
  options.directory = scratch.path() / "k3";
  options.sparse = true;
  const SynthReport report = synthesize(options);
  EXPECT_EQ(report.shards, 96);
  EXPECT_EQ(report.tensors, 497220);
  EXPECT_EQ(report.bytes, 1560860324864);
  const Checkpoint checkpoint = Checkpoint::open(options.directory);
  EXPECT_EQ(checkpoint.total_bytes(), 1560860324864);
  EXPECT_EQ(checkpoint.shards()[95], "model-00096-of-000096.safetensors");
  EXPECT_EQ(checkpoint.config().kda_layers(), 69);
  const std::vector<Checkpoint::TensorInfo> tensors = checkpoint.tensors();
  const auto count = [&](std::string_view dtype) {
    return std::count_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.dtype == dtype; });
  };
  EXPECT_EQ(count("U8"), 494592);
  EXPECT_EQ(count("BF16"), 2122);
  EXPECT_EQ(count("F32"), 506);
  // Experts in text order: 10 directly after 1.
  const auto at = [&](const char* name) {
    return std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
  };
  const auto one = at("language_model.model.layers.1.block_sparse_moe.experts.1.w3.weight_scale");
  ASSERT_NE(one, tensors.end());
  EXPECT_EQ((one + 1)->name, "language_model.model.layers.1.block_sparse_moe.experts.10.w1.weight_packed");
  const MatrixSource w2 = checkpoint.matrix("model.layers.92.block_sparse_moe.experts.895.w2");
  EXPECT_EQ(w2.rows, 3584);
  EXPECT_EQ(w2.codes.size() + w2.scales.size(), 3u * 17547264 / 9);
}

TEST(Synth, FilledOnesAreCompleteAndRepeatable) {
  const TemporaryDirectory scratch;
  for (const auto format : {fp4::WeightFormat::kMxfp4, fp4::WeightFormat::kNvfp4}) {
    SynthOptions options = tiny(scratch.path() / (std::string("a-") + name_of(format)));
    options.format = format;
    synthesize(options);
    const Checkpoint checkpoint = Checkpoint::open(options.directory);
    checkpoint.validate_all();
    EXPECT_EQ(checkpoint.matrix("model.layers.1.block_sparse_moe.experts.31.w3").format, format);
    for (const char* name : {"tiktoken.model", "tokenizer_config.json", "generation_config.json"}) {
      EXPECT_TRUE(fs::exists(options.directory / name)) << name;
    }
    SynthOptions again = options;
    again.directory = scratch.path() / (std::string("b-") + name_of(format));
    synthesize(again);
    SynthOptions other = options;
    other.directory = scratch.path() / (std::string("c-") + name_of(format));
    other.seed = 2;
    synthesize(other);
    const char* const shard = "model-00002-of-000015.safetensors";
    EXPECT_EQ(read_file(options.directory / shard), read_file(again.directory / shard));
    EXPECT_NE(read_file(options.directory / shard), read_file(other.directory / shard));
  }
}

TEST(Synth, WeightsHaveTheVarianceOfAFreshLayer) {
  const TemporaryDirectory scratch;
  const SynthOptions options = tiny(scratch.path() / "model");
  synthesize(options);
  const Checkpoint checkpoint = Checkpoint::open(options.directory);
  const MatrixSource m = checkpoint.matrix("model.layers.0.self_attn.q_proj");
  const auto* const values = reinterpret_cast<const Bf16*>(m.codes.data());
  double sum = 0.0, squares = 0.0;
  for (int64_t i = 0; i < m.rows * m.cols; ++i) {
    sum += double(to_float(values[i]));
    squares += double(to_float(values[i])) * double(to_float(values[i]));
  }
  const auto n = double(m.rows * m.cols);
  EXPECT_NEAR(squares / n * double(m.cols), 1.0, 0.05);
  EXPECT_NEAR(sum / n * std::sqrt(double(m.cols)), 0.0, 0.05);
}

TEST(Synth, RefusesWhatItCannotMake) {
  const TemporaryDirectory scratch;
  const auto refusal = [](const SynthOptions& options) -> std::string {
    try {
      synthesize(options);
    } catch (const Refusal& e) {
      return e.what();
    }
    return "";
  };
  SynthOptions options = tiny(scratch.path() / "model");
  options.shape = "llama";
  expect_refused(refusal(options), {"--shape llama", "shapes known: kimi-k3, k3-tiny"});
  options.shape = "k3-tiny";
  options.format = fp4::WeightFormat::kBf16;
  expect_refused(refusal(options), {"--format bf16", "formats known: mxfp4, nvfp4"});
  options.format = fp4::WeightFormat::kMxfp4;
  options.experts = 3;  // below the four that each token takes
  expect_refused(refusal(options), {"num_experts_per_token", "from 1 to 3"});
  options.experts = 0;
  EXPECT_EQ(refusal(options), "");
  expect_refused(refusal(options), {"a config.json is there already", "never overwrites"});
  SynthOptions huge;
  huge.directory = scratch.path() / "huge";
  expect_refused(refusal(huge), {"bytes free", "1559965606912 bytes", "--sparse"});
}

}  // namespace
}  // namespace nibble::checkpoint
