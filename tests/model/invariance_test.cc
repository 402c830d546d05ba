// The same bits whatever else happens: chunks, neighbours, threads, and a device that runs everything later in memory
// the host cannot touch.
#include <gtest/gtest.h>

#include <cstring>

#include "cpu/cpu_device.h"
#include "cpu/isa.h"
#include "testing/deferred_device.h"
#include "testing/golden.h"
#include "testing/model_rig.h"
#include "testing/test_device.h"

namespace nibble {
namespace {

using testing::Golden;
using testing::ModelRig;

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct Variant {
  std::string name, format;
  DType dtype;
  ops::MlaForm form;
};
void PrintTo(const Variant& v, std::ostream* out) { *out << v.name; }

class InvarianceTest : public ::testing::TestWithParam<Variant> {
 protected:
  std::unique_ptr<ModelRig> rig(std::unique_ptr<Device> device) const {
    const Variant& v = GetParam();
    return std::make_unique<ModelRig>(std::move(device), Golden::model_path(v.format), v.dtype, v.form);
  }
  std::vector<int32_t> prompt(size_t i) const { return golden_.prompts(GetParam().format)[i].tokens; }
  Golden golden_;
};

TEST_P(InvarianceTest, ChunksGiveTheSameBits) {
  const auto whole = rig(testing::open_device_under_test(2));
  const std::vector<float> want = whole->logits(prompt(1));
  for (const int64_t chunk : {1, 3, 16, 64}) {
    EXPECT_TRUE(same_bits(whole->logits(prompt(1), chunk), want)) << "chunks of " << chunk;
  }
}

TEST_P(InvarianceTest, EverySplitGivesTheSameBits) {  // around the convolution's window, segments and pages
  const auto model = rig(testing::open_device_under_test(2));
  const std::vector<int32_t> tokens = prompt(1);
  const std::vector<float> want = model->logits(tokens);
  for (const size_t split : {1, 2, 3, 4, 15, 16, 17, 31, 32, 63, 64, 65, 72}) {
    cache::Sequence sequence;
    model->runner().cache().reserve(sequence, static_cast<int64_t>(tokens.size()));
    std::vector<float> got;
    for (const auto part : {std::span(tokens).first(split), std::span(tokens).subspan(split)}) {
      const engine::SequenceRows rows{&sequence, part, engine::Sampled::kAll};
      model->runner().forward({&rows, 1});
      const auto read = model->runner().read_logits();
      got.insert(got.end(), read.begin(), read.end());
    }
    model->runner().cache().release(sequence);
    EXPECT_TRUE(same_bits(got, want)) << "split at " << split;
  }
}

TEST_P(InvarianceTest, NeighboursDoNotMatter) {
  const auto model = rig(testing::open_device_under_test(2));
  const std::vector<std::vector<int32_t>> prompts = {prompt(0), prompt(1), prompt(2), prompt(3), prompt(4)};
  const auto together = model->logits_together(prompts, {1, 70, 1, 64, 3});
  for (size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_TRUE(same_bits(together[i], model->logits(prompts[i]))) << "prompt " << i;
  }
}

TEST_P(InvarianceTest, ThreadsAndRerunsDoNotMatter) {
  const std::vector<float> want = rig(testing::open_device_under_test(1))->logits(prompt(2));
  for (const int threads : {2, 3, 7}) {
    const auto model = rig(testing::open_device_under_test(threads));
    EXPECT_TRUE(same_bits(model->logits(prompt(2)), want)) << threads << " threads";
    EXPECT_TRUE(same_bits(model->logits(prompt(2)), want)) << threads << " threads, again";
  }
}

TEST_P(InvarianceTest, ADeviceThatRunsLaterGivesTheSameBits) {
  const std::vector<float> want = rig(ModelRig::cpu())->logits(prompt(0), 5);
  const auto later = rig(std::make_unique<testing::DeferredDevice>(*cpu::best_isa().kernels));
  EXPECT_TRUE(same_bits(later->logits(prompt(0), 5), want));
}

TEST_P(InvarianceTest, StaleCacheContentsDoNotMatter) {
  const auto model = rig(testing::open_device_under_test(2));
  const std::vector<float> want = model->logits(prompt(3));
  const std::vector<std::byte> stale(size_t{16} << 20, std::byte{0xFF});
  const auto poison = [&](std::byte* memory, int64_t bytes) {
    ASSERT_LE(static_cast<size_t>(bytes), stale.size());
    model->device().copy_in(memory, std::span(stale).first(static_cast<size_t>(bytes)));
  };
  cache::Cache& cache = model->runner().cache();
  for (int64_t i = 0; i < cache.shape().kda_layers; ++i) {
    const auto layer = cache.kda(i);
    for (const Rows& w : {layer.q_window, layer.k_window, layer.v_window}) {
      poison(static_cast<std::byte*>(w.data), w.rows * w.stride * bytes_of(w.dtype));
    }
    poison(reinterpret_cast<std::byte*>(layer.state.data), layer.state.size * 4);
    poison(reinterpret_cast<std::byte*>(layer.records.data), layer.records.size * 4);
  }
  for (int64_t i = 0; i < cache.shape().mla_layers; ++i) {
    const Rows pool = cache.mla(i);
    poison(static_cast<std::byte*>(pool.data), pool.rows * pool.stride * bytes_of(pool.dtype));
  }
  EXPECT_TRUE(same_bits(model->logits(prompt(3)), want));
}

INSTANTIATE_TEST_SUITE_P(Variants, InvarianceTest,
                         ::testing::Values(Variant{"mxfp4_exact", "mxfp4", DType::kF32, ops::MlaForm::kAbsorbed},
                                           Variant{"mxfp4_bf16", "mxfp4", DType::kBf16, ops::MlaForm::kAbsorbed},
                                           Variant{"nvfp4_bf16", "nvfp4", DType::kBf16, ops::MlaForm::kAbsorbed},
                                           Variant{"mxfp4_expanded", "mxfp4", DType::kBf16, ops::MlaForm::kExpanded}),
                         [](const auto& variant) { return variant.param.name; });

}  // namespace
}  // namespace nibble
