// The whole forward pass against the fp64 goldens: logits of all prompts, and every intermediate of the traced one.
#include "testing/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "ops/kda_rows.h"
#include "testing/model_rig.h"
#include "testing/test_device.h"

namespace nibble {
namespace {

using testing::Golden;
using testing::ModelRig;

constexpr float kLogitBudget = 2e-3f;  // the promise; measured: docs/fidelity.md
constexpr float kDecidedGap = 1e-3f;   // below this, two orders of summation may rank differently

class GoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  Golden golden_;
};

TEST_P(GoldenTest, LogitsOfEveryPosition) {
  ModelRig rig(testing::open_device_under_test(2), Golden::model_path(GetParam()), DType::kF32);
  const auto width = static_cast<size_t>(rig.model().config().vocab_size);
  float worst = 0;
  for (const auto& prompt : golden_.prompts(GetParam())) {
    const std::vector<float> got = rig.logits(prompt.tokens);
    const auto want_ids = golden_.ints(prompt.key + ".top_ids");
    const auto want_logits = golden_.floats(prompt.key + ".top_logits"),
               lse = golden_.floats(prompt.key + ".logsumexp");
    for (size_t t = 0; t < prompt.tokens.size(); ++t) {
      const std::span<const float> row(got.data() + t * width, width);
      std::vector<int32_t> order(width);
      for (size_t i = 0; i < width; ++i) order[i] = static_cast<int32_t>(i);
      std::partial_sort(order.begin(), order.begin() + 8, order.end(), [&](int32_t a, int32_t b) {
        return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)];
      });
      double sum = 0;
      for (const float x : row) sum += std::exp(static_cast<double>(x - row[static_cast<size_t>(order[0])]));
      worst =
          std::max(worst, std::fabs(static_cast<float>(std::log(sum)) + row[static_cast<size_t>(order[0])] - lse[t]));
      for (size_t i = 0; i < 8; ++i) {
        worst = std::max(worst, std::fabs(row[static_cast<size_t>(want_ids[t * 8 + i])] - want_logits[t * 8 + i]));
        const bool above = i == 0 || want_logits[t * 8 + i - 1] - want_logits[t * 8 + i] > kDecidedGap;
        const bool below = i == 7 || want_logits[t * 8 + i] - want_logits[t * 8 + i + 1] > kDecidedGap;
        if (above && below && i < 7) {
          EXPECT_EQ(order[i], want_ids[t * 8 + i]) << prompt.key << " position " << t << " rank " << i;
        }
      }
    }
    const auto last = golden_.floats(prompt.key + ".last_logits");
    for (size_t i = 0; i < width; ++i) worst = std::max(worst, std::fabs(got[got.size() - width + i] - last[i]));
  }
  EXPECT_LE(worst, kLogitBudget);
  RecordProperty("worst_logit_error", std::to_string(worst));
  std::printf("%s: largest logit error %.2e\n", GetParam().c_str(), static_cast<double>(worst));
}

// Copies out what the goldens trace.
class Recorder final : public model::Tap {
 public:
  explicit Recorder(Device& device) : device_(device) {}
  void rows(const char* what, int64_t layer, const ConstRows& x) override {
    auto& to = floats[key(what, layer)];
    to.resize(static_cast<size_t>(x.rows * x.cols));
    device_.copy_out(std::as_writable_bytes(std::span(to)), static_cast<const std::byte*>(x.data));
  }
  void routes(int64_t layer, const model::Routes& r) override {
    auto& to_ids = ids[layer];
    auto& to_weights = floats[key("expert_weights", layer)];
    to_ids.resize(static_cast<size_t>(r.ids.rows * r.ids.cols));
    to_weights.resize(to_ids.size());
    device_.copy_out(std::as_writable_bytes(std::span(to_ids)), reinterpret_cast<const std::byte*>(r.ids.data));
    device_.copy_out(std::as_writable_bytes(std::span(to_weights)), reinterpret_cast<const std::byte*>(r.weights.data));
  }
  static std::string key(const std::string& what, int64_t layer) {
    return what == "embedding" || what == "final" ? what : "layer" + std::to_string(layer) + "." + what;
  }
  std::map<std::string, std::vector<float>> floats;
  std::map<int64_t, std::vector<int32_t>> ids;

 private:
  Device& device_;
};

template <class T>
std::vector<T> read(Device& device, const View1<T>& view) {
  std::vector<T> out(static_cast<size_t>(view.size));
  device.copy_out(std::as_writable_bytes(std::span(out)), reinterpret_cast<const std::byte*>(view.data));
  device.synchronize();
  return out;
}

// The state that the prompt leaves behind, from boundary state and records, however the prompt was cut.
TEST_P(GoldenTest, KdaStatesOfTheFirstPrompt) {
  ModelRig rig(testing::open_device_under_test(2), Golden::model_path(GetParam()), DType::kF32);
  const checkpoint::Config& config = rig.model().config();
  const auto& prompt = golden_.prompts(GetParam())[0];
  const auto length = static_cast<int64_t>(prompt.tokens.size());
  double worst_of_all = 0;
  for (const int64_t chunk : {int64_t{0}, int64_t{1}, int64_t{7}}) {
    cache::Sequence sequence;
    ASSERT_TRUE(rig.runner().cache().reserve(sequence, length));
    rig.logits(sequence, prompt.tokens, chunk);
    int64_t kda = 0;
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      if (!config.is_kda[static_cast<size_t>(layer)]) continue;
      const cache::Cache::KdaLayer pools = rig.runner().cache().kda(kda++);
      const std::vector<float> state = read(rig.device(), pools.state), records = read(rig.device(), pools.records);
      const std::span<const float> want = golden_.floats(prompt.key + ".trace." + Recorder::key("kda_state", layer));
      const int64_t dim = config.kda_head_dim;
      double largest = 0, worst = 0;
      for (int64_t head = 0; head < config.kda_num_heads; ++head) {
        const std::vector<double> got =
            ops::reference::recurrent_state({.state = {state.data(), static_cast<int64_t>(state.size())},
                                             .records = {records.data(), static_cast<int64_t>(records.size())},
                                             .heads = config.kda_num_heads,
                                             .key_dim = dim,
                                             .value_dim = dim},
                                            sequence.slot, head, length);
        ASSERT_EQ(got.size() * static_cast<size_t>(config.kda_num_heads), want.size());
        for (size_t i = 0; i < got.size(); ++i) {
          const auto w = static_cast<double>(want[static_cast<size_t>(head) * got.size() + i]);
          largest = std::max(largest, std::fabs(w));
          worst = std::max(worst, std::fabs(got[i] - w));
        }
      }
      worst_of_all = std::max(worst_of_all, worst / largest);
      EXPECT_LE(worst, 1.5e-6 * largest) << "layer " << layer << ", chunks of " << chunk;
    }
    rig.runner().cache().release(sequence);
  }
  std::printf("%s: largest KDA state error %.2e of the largest element\n", GetParam().c_str(), worst_of_all);
}

TEST_P(GoldenTest, TraceOfTheFirstPrompt) {
  ModelRig rig(testing::open_device_under_test(2), Golden::model_path(GetParam()), DType::kF32);
  const auto& prompt = golden_.prompts(GetParam())[0];
  Recorder recorder(rig.device());
  rig.logits(prompt.tokens, 0, &recorder);
  const std::string trace = prompt.key + ".trace.";
  const int64_t layers = rig.model().config().num_hidden_layers;
  std::vector<std::string> names = {"embedding", "final"};
  for (int64_t l = 0; l < layers; ++l) {
    names.push_back(Recorder::key("attn", l));
    names.push_back(Recorder::key("mlp", l));
  }
  for (const std::string& name : names) {
    const auto want = golden_.floats(trace + name);
    const auto& got = recorder.floats.at(name);
    ASSERT_EQ(got.size(), want.size()) << name;
    double largest = 0, worst = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      largest = std::max(largest, std::fabs(static_cast<double>(want[i])));
      worst = std::max(worst, std::fabs(static_cast<double>(got[i]) - static_cast<double>(want[i])));
    }
    EXPECT_LE(worst, 8e-5 * largest) << name;  // measured: 2e-5 at most
  }
  for (int64_t l = rig.model().config().first_k_dense_replace; l < layers; ++l) {
    // The golden lists experts by descending score; nibble in ascending id. Same set, same weight for each.
    const auto want_ids = golden_.ints(trace + Recorder::key("expert_ids", l));
    const auto want_weights = golden_.floats(trace + Recorder::key("expert_weights", l));
    const auto& got_ids = recorder.ids.at(l);
    const auto& got_weights = recorder.floats.at(Recorder::key("expert_weights", l));
    const auto k = static_cast<size_t>(rig.model().config().num_experts_per_token);
    for (size_t t = 0; t < prompt.tokens.size(); ++t) {
      std::map<int32_t, float> want, got;
      for (size_t i = t * k; i < (t + 1) * k; ++i) {
        want[want_ids[i]] = want_weights[i];
        got[got_ids[i]] = got_weights[i];
      }
      for (const auto& [id, weight] : want) {
        ASSERT_TRUE(got.contains(id)) << "layer " << l << " row " << t << " expert " << id;
        EXPECT_NEAR(got[id], weight, 2e-5f);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, GoldenTest, ::testing::Values("mxfp4", "nvfp4"),
                         [](const auto& format) { return format.param; });

}  // namespace
}  // namespace nibble
