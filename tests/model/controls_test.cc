// Negative controls: faults that others shipped, planted one at a time. Each must break the goldens by far more than
// their budget, or the goldens could not have caught it.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <vector>

#include "cpu/cpu_device.h"
#include "cpu/isa.h"
#include "ops/kernel_table.h"
#include "ops/ops.h"
#include "testing/golden.h"
#include "testing/planted.h"

namespace nibble {
namespace {

using testing::Golden;

const ops::KernelTable& good() { return *cpu::best_isa().kernels; }

float error_with(const ops::KernelTable& kernels, const std::string& format = "mxfp4",
                 const std::string& directory = "") {
  return testing::golden_error(std::make_unique<cpu::CpuDevice>(kernels, 2), format, directory);
}

constexpr float kVisible = testing::kVisibleError;

TEST(ControlTest, NothingPlanted) {
  EXPECT_LE(error_with(good()), testing::kGoldenBudget);
  EXPECT_LE(error_with(good(), "nvfp4"), testing::kGoldenBudget);
}

TEST(ControlTest, EveryPlantedFaultShows) {
  for (const testing::PlantedFault& fault : testing::planted_faults()) {
    EXPECT_GT(error_with(testing::with_fault(good(), fault)), kVisible) << fault.name;
  }
}

// These look into the device's memory, which a CPU allows.
TEST(ControlTest, StateTransposedBetweenSteps) {
  ops::KernelTable bad = good();
  bad.kda_rows = [](Device& device, const ops::KdaRows& a) {
    good().kda_rows(device, a);
    const int64_t n = a.key_dim;
    for (float* s = a.state.data; s < a.state.data + a.state.size; s += n * n) {
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < i; ++j) std::swap(s[i * n + j], s[j * n + i]);
      }
    }
  };
  EXPECT_GT(error_with(bad), kVisible);
}

TEST(ControlTest, TensorScaleTheWrongWayUp) {
  ops::KernelTable bad = good();
  bad.moe_experts = [](Device& device, const ops::MoeExperts& a) {
    std::vector<std::vector<ops::WeightMatrix>> tables;
    ops::MoeExperts wrong = a;
    for (ops::ExpertBank* bank : {&wrong.w1, &wrong.w3, &wrong.w2}) {
      tables.emplace_back(bank->experts.data, bank->experts.data + bank->experts.size);
      for (ops::WeightMatrix& w : tables.back()) w.tensor_scale = 1.0f / w.tensor_scale;
      bank->experts.data = tables.back().data();
    }
    good().moe_experts(device, wrong);
  };
  EXPECT_GT(error_with(bad, "nvfp4"), kVisible);
}

TEST(ControlTest, BiasUsedInTheWeights) {
  ops::KernelTable bad = good();
  bad.moe_route = [](Device& device, const ops::MoeRoute& a) {
    good().moe_route(device, a);
    for (int64_t t = 0; t < a.logits.rows; ++t) {
      float sum = 0;
      const auto biased = [&](int64_t i) {
        const int32_t id = a.ids.row(t)[i];
        return 1.0f / (1.0f + std::exp(-a.logits.row(t)[id])) + a.bias.data[id];
      };
      for (int64_t i = 0; i < a.ids.cols; ++i) sum += biased(i);
      for (int64_t i = 0; i < a.ids.cols; ++i) a.weights.row(t)[i] = biased(i) / sum * a.scale;
    }
  };
  EXPECT_GT(error_with(bad), kVisible);
}

TEST(ControlTest, NormalisedSourcesMixedInTheAttentionResidual) {
  ops::KernelTable bad = good();
  bad.attn_res_mix = [](Device& device, const ops::AttnResMix& a) {
    const int64_t width = a.sources.cols;
    std::vector<float> normalised;
    for (int64_t t = 0; t < a.sources.rows; ++t) {
      const auto* source = static_cast<const float*>(a.sources.data) + t * a.sources.stride;
      float squares = 0;
      for (int64_t i = 0; i < width; ++i) squares += source[i] * source[i];
      const float scale = 1.0f / std::sqrt(squares / static_cast<float>(width) + a.eps);
      for (int64_t i = 0; i < width; ++i) normalised.push_back(source[i] * scale);
    }
    ops::AttnResMix wrong = a;  // the scores stay as they are: they look at the normalised sources anyway
    wrong.sources.data = normalised.data();
    wrong.sources.stride = width;
    good().attn_res_mix(device, wrong);
  };
  EXPECT_GT(error_with(bad), kVisible);
}

// Faults of reading are planted in a copy of the checkpoint.
class DamagedCheckpoint {
 public:
  explicit DamagedCheckpoint(const std::string& name)
      : directory_(std::filesystem::temp_directory_path() / ("nibble-control-" + name)) {
    std::filesystem::remove_all(directory_);
    std::filesystem::copy(Golden::model_path("mxfp4"), directory_);
  }
  ~DamagedCheckpoint() { std::filesystem::remove_all(directory_); }
  std::string path() const { return directory_.string(); }

  void replace_in(const std::string& file, const std::string& from, const std::string& to) const {
    std::string text = read(file);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    write(file, text.replace(at, from.size(), to));
  }
  std::string read(const std::string& file) const {
    std::ifstream in(directory_ / file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& file, const std::string& bytes) const {
    std::ofstream(directory_ / file, std::ios::binary) << bytes;
  }

 private:
  std::filesystem::path directory_;
};

TEST(ControlTest, BlockBoundaryOffByOne) {
  for (const char* size : {"3", "5"}) {
    const DamagedCheckpoint copy(std::string("block") + size);
    copy.replace_in("config.json", "\"attn_res_block_size\": 4", std::string("\"attn_res_block_size\": ") + size);
    EXPECT_GT(error_with(good(), "mxfp4", copy.path()), kVisible) << size;
  }
}

TEST(ControlTest, HighNibbleFirst) {
  const DamagedCheckpoint copy("nibbles");
  const std::string file = "model-00002-of-000002.safetensors";  // experts only
  std::string bytes = copy.read(file);
  const std::string original = bytes;
  const auto header =
      checkpoint::parse_safetensors(std::as_bytes(std::span(original)), static_cast<int64_t>(original.size()), file);
  for (const auto& t : header.tensors) {
    if (!t.name.ends_with("weight_packed")) continue;
    for (uint64_t i = t.begin; i < t.begin + t.bytes; ++i) {
      const auto b = static_cast<uint8_t>(bytes[i]);
      bytes[i] = static_cast<char>(b >> 4 | b << 4);
    }
  }
  copy.write(file, bytes);
  EXPECT_GT(error_with(good(), "mxfp4", copy.path()), kVisible);
}

}  // namespace
}  // namespace nibble
