// Every form a weight may be stored in opens, and means the same numbers; names and vectors too.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/files.h"
#include "fp4/quantize.h"

namespace nibble::checkpoint {
namespace {

using fp4::WeightFormat;

constexpr const char* kStem = "model.layers.1.self_attn.q_proj";
const std::string kPublished = std::string("language_model.") + kStem;
constexpr int64_t kRows = 256, kCols = 192;

class Forms : public ::testing::Test {
 protected:
  void replace(std::vector<FileTensor> with) {
    files.remove(kPublished + ".weight");
    for (FileTensor& t : with) {
      t.name = kPublished + t.name;
      files.add(std::move(t));
    }
  }
  MatrixSource opened(const char* stem = kStem) {
    files.write(scratch.path());
    held.clear();
    held.push_back(Checkpoint::open(scratch.path()));
    held.back().validate_all();
    return held.back().matrix(stem);
  }
  void expect(const MatrixSource& m, WeightFormat format, size_t codes, size_t scales, float tensor_scale) {
    EXPECT_EQ(m.format, format);
    EXPECT_EQ(m.rows, kRows);
    EXPECT_EQ(m.cols, kCols);
    EXPECT_EQ(m.codes.size(), codes);
    EXPECT_EQ(m.scales.size(), scales);
    EXPECT_EQ(m.tensor_scale, tensor_scale);
  }
  static std::string repeated(int64_t n, char byte) { return std::string(static_cast<size_t>(n), byte); }

  Files files = Files::small();
  TemporaryDirectory scratch;
  std::vector<Checkpoint> held;
};

TEST_F(Forms, Bf16AndF32) {
  expect(opened(), WeightFormat::kBf16, kRows * kCols * 2, 0, 1.0f);
  replace({{".weight", "F32", {kRows, kCols}, repeated(kRows * kCols * 4, 0)}});
  expect(opened(), WeightFormat::kF32, kRows * kCols * 4, 0, 1.0f);
}

TEST_F(Forms, Mxfp4) {
  replace({{".weight_packed", "U8", {kRows, kCols / 2}, repeated(kRows * kCols / 2, 0x2B)},
           {".weight_scale", "U8", {kRows, kCols / 32}, repeated(kRows * kCols / 32, 127)}});
  expect(opened(), WeightFormat::kMxfp4, kRows * kCols / 2, kRows * kCols / 32, 1.0f);
}

TEST_F(Forms, CompressedTensorsDividesAndModelOptMultiplies) {
  const FileTensor packed = {".weight_packed", "U8", {kRows, kCols / 2}, repeated(kRows * kCols / 2, 0x2B)};
  const FileTensor scale = {".weight_scale", "F8_E4M3", {kRows, kCols / 16}, repeated(kRows * kCols / 16, 0x38)};
  replace({packed,
           scale,
           {".weight_global_scale", "F32", {1}, bytes_with<float>({3584.0f})},
           {".input_global_scale", "F32", {1}, bytes_with<float>({99.0f})}});
  const MatrixSource divided = opened();
  expect(divided, WeightFormat::kNvfp4, kRows * kCols / 2, kRows * kCols / 16, 1.0f / 3584.0f);
  EXPECT_NE(divided.tensor_scale, 3584.0f);  // the fault that was shipped elsewhere

  files = Files::small();
  FileTensor plain = packed;
  plain.name = ".weight";
  replace({plain,
           scale,
           {".weight_scale_2", "F32", {}, bytes_with<float>({0.25f})},
           {".input_scale", "F32", {}, bytes_with<float>({0.5f})}});
  expect(opened(), WeightFormat::kNvfp4, kRows * kCols / 2, kRows * kCols / 16, 0.25f);
}

TEST_F(Forms, Fp8BlocksInTwoOrFourDimensions) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{2, 2}, std::vector<int64_t>{2, 1, 2, 1}}) {
    files = Files::small();
    replace({{".weight", "F8_E4M3", {kRows, kCols}, repeated(kRows * kCols, 0x38)},
             {".weight_scale", "F32", shape, bytes_with<float>({1.0f, 2.0f, 3.0f, 4.0f})}});
    expect(opened(), WeightFormat::kFp8Block, kRows * kCols, 16, 1.0f);
  }
  files = Files::small();
  replace({{".weight", "F8_E4M3", {kRows, kCols}, repeated(kRows * kCols, 0x38)},
           {".weight_scale", "F32", {2, 2, 1, 1}, bytes_with<float>({1.0f, 2.0f, 3.0f, 4.0f})}});
  expect_refused(refusal_of(files), {"q_proj.weight_scale is [2, 2, 1, 1] (wanted [2, 1, 2, 1])"});
}

TEST_F(Forms, IncompleteFormsSayWhatIsLacking) {
  replace({{".weight_packed", "U8", {kRows, kCols / 2}, repeated(kRows * kCols / 2, 0x2B)},
           {".weight_scale", "F8_E4M3", {kRows, kCols / 16}, repeated(kRows * kCols / 16, 0x38)}});
  expect_refused(refusal_of(files), {"1 missing", kPublished + ".weight_global_scale"});
  files = Files::small();
  replace({{".weight", "U8", {kRows, kCols / 2}, repeated(kRows * kCols / 2, 0x2B)}});
  expect_refused(refusal_of(files), {"2 missing", ".weight_scale", ".weight_scale_2"});
}

TEST_F(Forms, TheIgnoreListDecidesNothing) {
  files.text()["quantization_config"]["ignore"] = {"re:.*"};  // says that nothing is quantised; experts still are
  EXPECT_EQ(opened("model.layers.1.block_sparse_moe.experts.0.w1").format, WeightFormat::kMxfp4);
}

TEST_F(Forms, RouterAndEmbeddingAreNeverQuantised) {
  for (const char* name :
       {"language_model.model.embed_tokens.weight", "language_model.model.layers.1.block_sparse_moe.gate.weight"}) {
    files = Files::small();
    FileTensor& t = files.at(name);
    t.dtype = "F8_E4M3", t.bytes.resize(t.bytes.size() / 2);
    expect_refused(refusal_of(files), {std::string(name) + " is F8_E4M3 (wanted BF16 F32)"});
  }
}

TEST_F(Forms, EveryPrefixIsTheSameModel) {
  const MatrixSource published = opened();
  const std::string bytes(reinterpret_cast<const char*>(published.codes.data()), published.codes.size());
  for (const char* prefix : {"language_model.", "model.", "", "model.language_model."}) {
    files = Files::small();
    for (FileTensor& t : files.tensors) {
      for (const std::string_view had : {"language_model.model.", "language_model."}) {
        if (!t.name.starts_with(had)) continue;
        t.name = prefix + t.name.substr(had.size());
        break;
      }
    }
    const MatrixSource m = opened();
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(m.codes.data()), m.codes.size()), bytes) << prefix;
  }
}

// The order of experts in a file must not matter: reversed, each expert still has its own bytes.
TEST_F(Forms, ExpertOrderIsNeverAssumed) {
  for (FileTensor& t : files.tensors) {
    if (!t.name.ends_with("w1.weight_packed")) continue;
    std::fill(t.bytes.begin(), t.bytes.end(), t.name[t.name.find("experts.") + 8]);
  }
  std::reverse(files.tensors.begin(), files.tensors.end());
  opened();
  for (const char digit : {'0', '1', '2', '3'}) {
    const MatrixSource m = held.back().matrix(std::string("model.layers.2.block_sparse_moe.experts.") + digit + ".w1");
    EXPECT_EQ(char(m.codes.front()), digit);
    EXPECT_EQ(char(m.codes.back()), digit);
  }
}

TEST_F(Forms, VectorsAreNarrowedAndFlattened) {
  opened();
  const Checkpoint& c = held.back();
  EXPECT_EQ(c.vector("model.layers.0.self_attn.A_log").size, 4);
  EXPECT_EQ(c.vector("model.layers.0.self_attn.A_log").bytes.size(), 16u);
  EXPECT_EQ(c.vector("model.layers.0.self_attn.q_conv1d.weight").size, 256 * 4);
  EXPECT_EQ(c.vector("model.layers.0.self_attention_res_proj.weight").size, 192);
  EXPECT_TRUE(c.vector("model.norm.weight").is_bf16);
  EXPECT_FALSE(c.vector("model.layers.0.self_attn.o_norm.weight").is_bf16);
}

TEST_F(Forms, AskingForWhatThePlanLacksIsOurFault) {
  opened();
  const Checkpoint& c = held.back();
  EXPECT_THROW(c.matrix("model.layers.3.self_attn.q_proj"), ContractError);  // an MLA layer
  EXPECT_THROW(c.matrix("model.norm"), ContractError);
  EXPECT_THROW(c.vector("model.layers.1.self_attn.q_proj.weight"), ContractError);
  EXPECT_THROW(c.vector("model.norm"), ContractError);
  EXPECT_THROW(c.vector("model.layers.0.self_attn.A_log.weight"), ContractError);
  EXPECT_THROW(c.matrix("model.layers.1.block_sparse_moe.experts.4.w1"), ContractError);
  EXPECT_THROW(c.matrix("model.layers.1.block_sparse_moe.experts.99999999999999999999.w1"), ContractError);
}

// The bundled model, in both formats: experts dequantise to the same weights within the coarser format's step.
TEST(Bundled, BothFormatsHoldTheSameExperts) {
  const Checkpoint mx = Checkpoint::open(NIBBLE_SOURCE_DIR "/models/k3-tiny");
  const Checkpoint nv = Checkpoint::open(NIBBLE_SOURCE_DIR "/models/k3-tiny-nvfp4");
  mx.validate_all();
  nv.validate_all();
  EXPECT_EQ(mx.config().num_experts, 32);
  EXPECT_EQ(mx.config().kda_layers(), 9);
  EXPECT_EQ(mx.config().eos_token_id, std::vector<int32_t>{1794});
  const auto row = [](const MatrixSource& m, int64_t r, std::vector<float>& out) {
    const auto* codes = reinterpret_cast<const uint8_t*>(m.codes.data()) + r * m.cols / 2;
    out.resize(static_cast<size_t>(m.cols));
    const std::span<const uint8_t> packed(codes, static_cast<size_t>(m.cols / 2));
    if (m.format == WeightFormat::kMxfp4) {
      const auto* s = reinterpret_cast<const fp4::E8m0*>(m.scales.data()) + r * m.cols / 32;
      fp4::dequantize<fp4::Mxfp4>(packed, {s, static_cast<size_t>(m.cols / 32)}, 1.0f, out);
    } else {
      const auto* s = reinterpret_cast<const fp4::E4m3*>(m.scales.data()) + r * m.cols / 16;
      fp4::dequantize<fp4::Nvfp4>(packed, {s, static_cast<size_t>(m.cols / 16)}, m.tensor_scale, out);
    }
  };
  double difference = 0.0, norm = 0.0;
  std::vector<float> a, b;
  for (const char* stem :
       {"model.layers.1.block_sparse_moe.experts.10.w1", "model.layers.12.block_sparse_moe.experts.31.w2"}) {
    const MatrixSource one = mx.matrix(stem), other = nv.matrix(stem);
    ASSERT_EQ(other.format, WeightFormat::kNvfp4);
    for (int64_t r = 0; r < one.rows; ++r) {
      row(one, r, a);
      row(other, r, b);
      for (size_t i = 0; i < a.size(); ++i) {
        difference += double(a[i] - b[i]) * double(a[i] - b[i]);
        norm += double(a[i]) * double(a[i]);
      }
    }
  }
  EXPECT_LT(std::sqrt(difference / norm), 0.25);  // each format is off by about a tenth; a wrong expert gives 1.4
}

}  // namespace
}  // namespace nibble::checkpoint
