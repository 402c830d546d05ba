// Tensors that do not fit the config, and scales that are not numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/files.h"

namespace nibble::checkpoint {
namespace {

constexpr const char* kLayer1 = "language_model.model.layers.1.";
const std::string kW2 = std::string(kLayer1) + "block_sparse_moe.experts.3.w2";
const std::string kQ = std::string(kLayer1) + "self_attn.q_proj";

TEST(Tensors, TheSmallOneOpens) { EXPECT_EQ(refusal_of(Files::small()), ""); }

TEST(Tensors, MissingOnesAreNamedTogether) {
  Files files = Files::small();
  files.remove("language_model.model.norm.weight");
  files.remove(kQ + ".weight");
  files.remove(kW2 + ".weight_scale");
  expect_refused(refusal_of(files),
                 {"tensors 3 missing", "language_model.model.norm.weight", kQ + ".weight", kW2 + ".weight_scale"});
}

TEST(Tensors, ManyMissingOnesAreCounted) {
  Files files = Files::small();
  files.text()["num_experts"] = 1025;  // no limit but the files: 1021 experts of 3 matrices in 3 layers are lacking
  const std::string text = refusal_of(files);
  expect_refused(text, {std::to_string(1021 * 9) + " missing", "experts.4.w1", "and 9185 more", "of a wrong shape",
                        "block_sparse_moe.gate.weight is [4, 192] (wanted [1025, 192])"});
}

TEST(Tensors, AConfigThatDwarfsTheFilesIsRefusedBeforeAnyAllocation) {
  Files files = Files::small();
  files.text()["num_experts"] = 2'000'000'000;
  expect_refused(refusal_of(files), {"config.json and files do not belong together", "the files hold"});
}

TEST(Tensors, ExtraOnesAreNamedAndVisionIsNot) {
  Files files = Files::small();
  files.add({"language_model.model.layers.9.input_layernorm.weight", "BF16", {2}, "abcd"});
  files.add({"language_model.model.layers.3.self_attn.q_proj.weight", "BF16", {2}, "abcd"});  // layer 3 is MLA
  files.add({"language_model.model.layers.01.input_layernorm.weight", "BF16", {2}, "abcd"});  // no such spelling
  files.add({"vision_tower.encoder.blocks.0.wo.weight", "BF16", {2}, "abcd"});
  files.add({"mm_projector.proj.0.weight", "F16", {2}, "abcd"});
  const std::string text = refusal_of(files);
  expect_refused(text, {"tensors 3 unexpected", "layers.9.input_layernorm.weight in model.safetensors", "layers.01."});
  EXPECT_EQ(text.find("vision"), std::string::npos);
}

TEST(Tensors, WrongDtypeAndShapeAreShownWithWhatIsWanted) {
  Files files = Files::small();
  files.at("language_model.model.norm.weight").dtype = "F16";
  FileTensor& bias = files.at(std::string(kLayer1) + "block_sparse_moe.gate.e_score_correction_bias");
  bias.dtype = "BF16", bias.bytes.resize(bias.bytes.size() / 2);
  files.at(kQ + ".weight").shape = {192, 256};
  files.at(kW2 + ".weight_packed").shape = {64, 64};
  expect_refused(refusal_of(files), {"2 of a wrong dtype", "norm.weight is F16 (wanted BF16 F32)",
                                     "e_score_correction_bias is BF16 (wanted F32)", "2 of a wrong shape",
                                     "q_proj.weight is [192, 256] (wanted [256, 192])",
                                     "w2.weight_packed is [64, 64] (wanted [128, 32])"});
}

TEST(Tensors, GroupsMustDivide) {
  Files files = Files::small();
  files.text()["moe_intermediate_size"] = 48;  // w2 has 48 columns, and 32 does not divide them
  expect_refused(refusal_of(files),
                 {"12 whose groups do not divide", "experts.0.w2.weight_packed: groups of 32, 48 columns"});
}

TEST(Tensors, TwoFormsOfOneMatrixAreRefused) {
  Files files = Files::small();
  files.add({kW2 + ".weight", "BF16", {128, 64}, std::string(128 * 64 * 2, '\0')});
  expect_refused(refusal_of(files), {"1 in no known form", kW2 + ".weight beside " + kW2 + ".weight_packed"});
  files = Files::small();
  files.add({kQ + ".weight_scale", "U8", {256, 6}, std::string(256 * 6, '\x7F')});
  expect_refused(refusal_of(files), {"1 in no known form", kQ + ".weight_scale beside " + kQ + ".weight"});
}

TEST(Tensors, PaddingOfALogMustBeZero) {
  for (const float bad : {1e-30f, float(NAN), -3.0f}) {
    Files files = Files::small();
    FileTensor& a_log = files.at(std::string(kLayer1) + "self_attn.A_log");
    ASSERT_EQ(a_log.shape[0], 64);
    std::memcpy(a_log.bytes.data() + 5 * 4, &bad, 4);  // four heads, so entry 5 is padding
    expect_refused(refusal_of(files), {"with nonzero padding", "layers.1.self_attn.A_log[5]", "4 heads"});
  }
  Files files = Files::small();
  FileTensor& a_log = files.at(std::string(kLayer1) + "self_attn.A_log");
  a_log.shape = {3}, a_log.bytes.resize(12);
  expect_refused(refusal_of(files), {"A_log is [3] (wanted [4] or longer, zero-padded)"});
}

class Scales : public ::testing::Test {
 protected:
  Checkpoint open(const Files& files) {
    files.write(scratch.path());
    return Checkpoint::open(scratch.path());
  }
  template <class Call>
  static std::string refusal(const Call& call) {
    try {
      call();
    } catch (const Refusal& refusal) {
      return refusal.what();
    }
    return "";
  }
  TemporaryDirectory scratch;
  static constexpr const char* kStem = "model.layers.1.block_sparse_moe.experts.3.w2";
};

TEST_F(Scales, AnE8m0NanIsFoundWithRowAndGroup) {
  Files files = Files::small();
  files.at(kW2 + ".weight_scale").bytes[7 * 2 + 1] = '\xFF';
  const Checkpoint checkpoint = open(files);
  const std::string text = refusal([&] { checkpoint.validate(kStem); });
  expect_refused(text,
                 {"with a scale that is not a number", kW2 + ".weight_scale row 7 group 1 is NaN (E8M0 byte 255)"});
  EXPECT_EQ(refusal([&] { checkpoint.validate_all(); }), text);
  EXPECT_EQ(refusal([&] { checkpoint.validate("model.layers.1.block_sparse_moe.experts.3.w1"); }), "");
}

TEST_F(Scales, GlobalScalesMustBePositiveNumbers) {
  for (const float bad : {0.0f, float(NAN), float(INFINITY), -2.0f, 1e-45f}) {
    Files files = Files::small();
    files.at(kW2 + ".weight_scale") = {kW2 + ".weight_scale", "F8_E4M3", {128, 4}, std::string(512, '\x38')};
    files.add({kW2 + ".weight_global_scale", "F32", {1}, bytes_with<float>({bad})});
    const Checkpoint checkpoint = open(files);
    const std::string text = refusal([&] { checkpoint.matrix(kStem); });
    expect_refused(text, {kW2 + ".weight_global_scale is", "a global scale is above zero"});
    EXPECT_EQ(refusal([&] { checkpoint.validate_all(); }), text);
  }
}

TEST_F(Scales, E4m3NanAndTileScalesAreFound) {
  Files files = Files::small();
  std::string scales(512, '\x38');
  scales[9] = '\xFF';
  files.at(kW2 + ".weight_scale") = {kW2 + ".weight_scale", "F8_E4M3", {128, 4}, scales};
  files.add({kW2 + ".weight_global_scale", "F32", {}, bytes_with<float>({2.0f})});
  files.at(kQ + ".weight") = {kQ + ".weight", "F8_E4M3", {256, 192}, std::string(256 * 192, '\x38')};
  files.add({kQ + ".weight_scale", "F32", {2, 2}, bytes_with<float>({1.0f, 2.0f, float(NAN), 3.0f})});
  const Checkpoint checkpoint = open(files);
  expect_refused(
      refusal([&] { checkpoint.validate_all(); }),
      {"2 with a scale", kW2 + ".weight_scale row 2 group 1 is NaN", kQ + ".weight_scale row 1 group 0 is NaN"});
}

}  // namespace
}  // namespace nibble::checkpoint
